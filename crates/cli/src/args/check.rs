//! What a weight, a priority and a name may be; the same bounds as the broker's.

/// 1 to 10000.
///
/// # Errors
/// Says what to give.
pub fn check_weight(weight: i64) -> Result<u32, String> {
    match u32::try_from(weight) {
        Ok(weight @ 1..=10_000) => Ok(weight),
        _ => Err(format!("weight {weight} is out of range: give 1 to 10000")),
    }
}

/// -100 to 100.
///
/// # Errors
/// Says what to give.
pub fn check_priority(priority: i64) -> Result<i32, String> {
    match i32::try_from(priority) {
        Ok(priority @ -100..=100) => Ok(priority),
        _ => Err(format!(
            "priority {priority} is out of range: give -100 to 100"
        )),
    }
}

/// 1 to 64 bytes of printable text.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_name(name: &str) -> Result<String, String> {
    plimsoll_wire::checks::name(name).map_err(|error| error.message)?;
    Ok(name.to_owned())
}

pub(super) fn weight(text: &str) -> Result<u32, String> {
    let number = text
        .parse()
        .map_err(|_| format!("`{text}` is no weight: give 1 to 10000"))?;
    check_weight(number)
}

pub(super) fn priority(text: &str) -> Result<i32, String> {
    let number = text
        .parse()
        .map_err(|_| format!("`{text}` is no priority: give -100 to 100"))?;
    check_priority(number)
}

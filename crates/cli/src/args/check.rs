//! Checks names by the broker's rules.

/// 1 to 64 bytes of printable text.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_name(name: &str) -> Result<String, String> {
    plimsoll_wire::checks::name(name).map_err(|error| error.message)?;
    Ok(name.to_owned())
}

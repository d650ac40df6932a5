//! A machine's own account of its heap (`jcmd PID VM.info`).

use plimsoll_map::Kind;

/// A space, region or page: its kind, bottom, top and end. Offsets for ZGC.
pub(crate) type Space = (Kind, u64, u64, u64);

/// The spaces of the heap in the text of `VM.info`.
pub(crate) fn heap(text: &str) -> Vec<Space> {
    let start = text.find("\nHeap:").unwrap_or(0);
    let heap = &text[start..];
    let end = heap.find("\nPolling page").unwrap_or(heap.len());
    heap[..end].lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Space> {
    let text = line.trim_start();
    if let Some(kind) = kind_of_space(text) {
        let numbers = numbers(&text[text.find('[')?..]);
        return Some((kind, *numbers.first()?, *numbers.get(1)?, *numbers.last()?));
    }
    if let Some(kind) = kind_of_page(text) {
        let [start, top, end] = numbers(text).try_into().ok()?;
        return Some((kind, start, top, end));
    }
    let fields: Vec<&str> = text.strip_prefix('|')?.split('|').map(str::trim).collect();
    let kind = match fields.iter().position(|field| field.starts_with("BTE")) {
        Some(_) => kind_of_shenandoah(fields[1]),
        None => kind_of_g1(fields.get(3)?),
    }?;
    let addresses = fields.iter().find(|field| field.contains(", "))?;
    let addresses = addresses.trim_start_matches("BTE").split(',');
    let mut numbers = addresses.map(|n| hexadecimal(n.trim()));
    Some((kind, numbers.next()??, numbers.next()??, numbers.next()??))
}

fn kind_of_space(text: &str) -> Option<Kind> {
    let mut words = text.split_whitespace();
    let kind = match words.next()? {
        "eden" => Kind::Eden,
        "from" | "to" => Kind::Survivor,
        "the" | "object" => Kind::Old,
        // The machine tells all committed memory of this generation.
        "concurrent" => return (words.next()? == "mark-sweep").then_some(Kind::Old),
        _ => return None,
    };
    (words.next()? == "space").then_some(kind)
}

fn kind_of_page(text: &str) -> Option<Kind> {
    match text.split_whitespace().next()? {
        "Small" | "Medium" => Some(Kind::Heap),
        "Large" => Some(Kind::Humongous),
        _ => None,
    }
}

fn kind_of_shenandoah(state: &str) -> Option<Kind> {
    match state {
        "EU" | "EC" => Some(Kind::FreeHeap),
        "H" | "HC" | "HP" => Some(Kind::Humongous),
        _ => Some(Kind::Heap),
    }
}

fn kind_of_g1(tag: &str) -> Option<Kind> {
    match tag {
        "F" => Some(Kind::FreeHeap),
        "E" => Some(Kind::Eden),
        "S" => Some(Kind::Survivor),
        "HS" | "HC" => Some(Kind::Humongous),
        "O" | "OA" | "CA" | "A" => Some(Kind::Old),
        _ => None,
    }
}

fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| word.starts_with("0x"))
        .filter_map(hexadecimal)
        .collect()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

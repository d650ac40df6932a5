//! How the schedulers look, the same in all pictures of a page.

use plimsoll_picture::{Svg, WIDTH, palette};

/// Pixels of the names at the left of pictures.
pub(super) const LABELS: f64 = 150.0;
/// Colours of schedulers, by their numbers in the palette: grey is the first one, with which the others are
/// compared.
const COLOURS: [usize; 8] = [palette::GREY, 1, 0, 2, 3, 5, 4, 7];

/// The class that fills with the colour of a scheduler.
pub(super) fn fill(scheduler: usize) -> String {
    palette::fill(COLOURS[scheduler % COLOURS.len()])
}

/// The class of a line in that colour.
pub(super) fn stroke(scheduler: usize) -> String {
    palette::stroke(COLOURS[scheduler % COLOURS.len()])
}

/// Which colour is which scheduler, at the top of a picture. Returns its lower edge, pixels.
pub(super) fn legend(svg: &mut Svg, schedulers: &[String]) -> f64 {
    let entries = schedulers.iter().enumerate();
    let entries = entries.map(|(index, name)| (fill(index), name.as_str()));
    svg.legend((LABELS, WIDTH), 2.0, entries)
}

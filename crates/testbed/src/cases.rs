//! Tests with very many cases: `make test` runs a part of them.
//!
//! Each JDK with each collector is a table, and a cell of it takes seconds. `make test` runs the cells of
//! some diagonals, which meet every row and every column. `make test-machines` sets [`EVERY`]: all are run.

/// If this variable is set, tests run all of their cases.
pub const EVERY: &str = "PLIMSOLL_EVERY_CASE";

/// Whether the case in this row and column of a table is to be run: it is one of those on every `one_in`-th
/// diagonal, or all are asked for.
#[must_use]
pub fn is_run(row: usize, column: usize, one_in: usize) -> bool {
    is_in_part(row, column, one_in) || std::env::var_os(EVERY).is_some()
}

/// The rows of a column that are to be run.
pub fn of_column<T>(
    rows: impl IntoIterator<Item = T>,
    column: usize,
    one_in: usize,
) -> impl Iterator<Item = T> {
    let numbered = rows.into_iter().enumerate();
    let run = numbered.filter(move |(row, _)| is_run(*row, column, one_in));
    run.map(|(_, case)| case)
}

fn is_in_part(row: usize, column: usize, one_in: usize) -> bool {
    (row + column).is_multiple_of(one_in)
}

#[cfg(test)]
mod tests {
    use super::is_in_part;

    #[test]
    fn each_row_and_each_column_is_met() {
        for one_in in 1..5 {
            for line in 0..9 {
                let cells = 0..one_in;
                assert!(cells.clone().any(|cell| is_in_part(line, cell, one_in)));
                assert!(cells.clone().any(|cell| is_in_part(cell, line, one_in)));
            }
        }
    }
}

use super::*;

/// Wink does the work of every row, and says what the row expects, with little around it so that it takes no time.
#[test]
fn wink_has_every_row() {
    for calls in [0, 3] {
        let little = wink::Around { state_items: 10, events: 10, files: 10, calls };
        for row in Row::ALL {
            let mut case = wink::make(row, little).expect("wink has every row");
            (0..3).for_each(|_| case());
        }
    }
}

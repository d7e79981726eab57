use super::*;

/// Wink does the work of every row, and says what the row expects, with little around it so that it takes no time.
#[test]
fn wink_has_every_row() {
    for calls in [0, 3] {
        let little = wink::Around { state_items: 10, events: 10, files: 10, calls };
        for row in Row::ALL.into_iter().filter(|row| row.kind() == Kind::InMemory) {
            let mut case = wink::make(row, little).expect("wink has every row");
            (0..3).for_each(|_| case());
        }
    }
}

/// What is measured on disk does what it should, in a workspace that takes no time to make.
#[test]
fn the_rows_on_disk_do_their_work() {
    for row in Row::ALL.into_iter().filter(|row| row.kind() == Kind::OnDisk) {
        if matches!(row, Row::Host(_, _, Size::Large)) {
            continue;
        }
        for contender in Contender::ALL {
            if let Some(mut case) = contender.make(row) {
                (0..2).for_each(|_| case());
            }
        }
    }
}

#[test]
fn a_name_means_a_row_or_a_group() {
    assert_eq!(Row::named("durable/call"), Ok(vec![Row::DurableCall]));
    assert_eq!(Row::named("durable/64"), Ok(vec![Row::DurableMany, Row::DurableOne]));
    assert_eq!(Row::named("host").map(|rows| rows.len()), Ok(12));
    assert_eq!(Row::named("mcp/http").map(|rows| rows.len()), Ok(2));
    assert!(Row::named("hos").is_err());
}

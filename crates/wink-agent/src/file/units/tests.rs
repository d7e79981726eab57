use std::time::Duration;

use super::{Size, Time, TimeOrForever};

#[test]
fn times_have_units() {
    let time = |text: &str| Time(text.to_owned()).duration();
    let cases = [
        ("250ms", Some(Duration::from_millis(250))),
        ("5m", Some(Duration::from_secs(300))),
        (" 1h 30m ", Some(Duration::from_secs(5400))),
        ("1h30m", Some(Duration::from_secs(5400))),
        ("2d", Some(Duration::from_secs(172_800))),
        ("", None),
        ("5", None),
        ("m", None),
        ("0s", None),
        ("-5m", None),
        ("1.5h", None),
        ("5 minutes", None),
        ("5M", None),
        ("9999d", None),
        ("99999999999999999999s", None),
        ("18446744073709551615d", None),
    ];
    for (text, expected) in cases {
        assert_eq!(time(text), expected, "{text:?}");
    }
}

#[test]
fn forever_is_a_time_too() {
    let time = |text: &str| TimeOrForever(text.to_owned()).duration();
    assert_eq!(time("forever"), Some(None));
    assert_eq!(time("1s"), Some(Some(Duration::from_secs(1))));
    assert_eq!(time("for ever"), None);
}

#[test]
fn sizes_have_units() {
    let size = |text: &str| Size(text.to_owned()).bytes();
    let cases = [
        ("100 B", Some(100)),
        ("64KiB", Some(65_536)),
        ("1GiB 1B", Some((1 << 30) + 1)),
        ("0B", None),
        ("64", None),
        ("64kb", None),
        ("18446744073709551615GiB", None),
    ];
    for (text, expected) in cases {
        assert_eq!(size(text), expected, "{text:?}");
    }
}

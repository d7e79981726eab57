use std::time::Duration;

use super::Limits;

fn refused(limits: Limits) -> String {
    limits.check().unwrap_err().to_string()
}

#[test]
fn the_default_makes_sense() {
    assert!(Limits::default().check().is_ok());
    let none = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
    assert!(none.check().is_ok());
}

#[test]
fn what_makes_no_sense_is_named() {
    let some = Limits::default;
    assert!(
        refused(Limits { memory: Some(1000), ..some() }).starts_with("the limit on memory is 1000 bytes")
    );
    for cpu in [0.0, -1.0, f64::NAN, f64::INFINITY, 5000.0] {
        assert!(refused(Limits { cpu: Some(cpu), ..some() }).starts_with("the limit on cpu"), "{cpu}");
    }
    assert!(refused(Limits { processes: Some(1), ..some() }).starts_with("the limit on processes"));
    assert!(refused(Limits { time: Duration::ZERO, ..some() }).starts_with("the limit on time"));
    assert!(refused(Limits { temporary: 0, ..some() }).starts_with("the limit on temporary"));
    assert!(refused(Limits { open_files: 3, ..some() }).starts_with("the limit on open_files"));
}

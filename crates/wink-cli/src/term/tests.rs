use super::*;

#[test]
fn text_is_wrapped_between_words() {
    assert_eq!(wrapped("", 5), [""]);
    assert_eq!(wrapped("one two", 7), ["one two"]);
    assert_eq!(wrapped("one two", 6), ["one", "two"]);
    assert_eq!(wrapped("a bb ccc dddd", 4), ["a bb", "ccc", "dddd"]);
    assert_eq!(wrapped("größer als alle", 6), ["größer", "als", "alle"]);
}

#[test]
fn a_word_longer_than_a_line_is_broken() {
    assert_eq!(wrapped("ab cdefghijk l", 4), ["ab", "cdef", "ghij", "k l"]);
}

#[test]
fn what_does_not_fit_is_cut_with_a_mark() {
    assert_eq!(cut("whole", 5), "whole");
    assert_eq!(cut("whole thing", 7), "whole…");
    assert_eq!(cut("one\ntwo", 9), "one…");
}

//! What does not compile, and what the compiler then says: every golden begins with what is expected instead.

// cases 7, 9, 10, 229, 230
#[test]
fn wrong_uses_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

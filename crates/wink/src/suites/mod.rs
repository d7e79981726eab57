//! (room: suites)

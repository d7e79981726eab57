//! Answers of a model, held to an object and to a list: whatever comes is read or refused with a text, what is read is JSON
//! that stands in the answer and that an independent validator accepts, and reading it alone gives the same.

use std::sync::LazyLock;

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wink::prompt::{Container, Output, OutputContract, PromptTemplate};

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Finding {
    file: String,
    line: Option<u8>,
}

struct Subject {
    contract: OutputContract,
    oracle: Validator,
}

static SUBJECTS: LazyLock<[Subject; 2]> = LazyLock::new(|| {
    let object = PromptTemplate::builder("fuzz", "object").output(Output::object::<Finding>()).build();
    let list = PromptTemplate::builder("fuzz", "list").output(Output::list::<Finding>()).build();
    let contracts = [
        object.expect("it is an object").output_contract().cloned(),
        list.expect("it is a list").output_contract().cloned(),
    ];
    contracts.map(|contract| {
        let contract = contract.expect("it has an output");
        let oracle = jsonschema::draft202012::new(contract.schema()).expect("it is a schema");
        Subject { contract, oracle }
    })
});

/// One input of the fuzzer, or of its corpus.
pub fn run(text: &str) {
    for Subject { contract, oracle } in SUBJECTS.iter() {
        match contract.parse(text) {
            Ok(parsed) => {
                assert!(oracle.is_valid(parsed.json()), "{text:?}");
                assert_eq!(parsed.text(), text);
                let is_list = contract.container() == Container::List;
                assert_eq!(
                    (parsed.json().is_array(), parsed.json().is_object()),
                    (is_list, !is_list),
                    "{text:?}"
                );
                let alone = contract.parse(&parsed.json().to_string()).expect("it was read before");
                assert_eq!(alone.json(), parsed.json(), "{text:?}");
            }
            Err(error) => {
                assert_eq!(&*error.text, text);
                assert!(error.to_string().contains("Answer again with one JSON "), "{error}");
            }
        }
    }
}

//! The vectors for reading replies.

use sayso::router::reading::{pick, read};
use serde::Deserialize;

#[derive(Deserialize)]
struct Given {
    pending: String,
    #[serde(default)]
    options: usize,
}

#[derive(Deserialize)]
struct Case<T> {
    id: String,
    given: Given,
    input: String,
    expect: Option<T>,
}

fn cases<T: serde::de::DeserializeOwned>(file: &str) -> Vec<Case<T>> {
    let path = format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_yes_no_vector_reads_as_it_should() {
    let cases = cases::<String>("yes-no.yaml");
    assert!(cases.len() > 60);
    let wrong: Vec<String> = cases
        .into_iter()
        .filter_map(|case| {
            let lean = read(&case.input).lean.filter(|_| case.given.pending == "approval");
            let got = lean.map(|l| l.as_str().to_owned());
            (got != case.expect)
                .then(|| format!("{} {:?}: {got:?}, not {:?}", case.id, case.input, case.expect))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_pick_vector_reads_as_it_should() {
    let cases = cases::<usize>("picks.yaml");
    assert!(cases.len() > 80);
    let wrong: Vec<String> = cases
        .into_iter()
        .filter_map(|case| {
            let got = pick(&case.input, case.given.options);
            (got != case.expect)
                .then(|| format!("{} {:?}: {got:?}, not {:?}", case.id, case.input, case.expect))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

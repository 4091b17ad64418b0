//! Which way imports go: a table, held against every file.

use std::collections::BTreeMap;
use std::path::Path;

/// For each module of the gateway, the modules that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    // nouns
    ("clock", &[]),
    ("ids", &[]),
    ("requests", &["clock", "ids"]),
    ("people", &["clock", "ids"]),
    ("display", &["requests"]),
    // the database
    ("store", &["clock", "ids", "requests", "people"]),
    // verbs
    ("secrets", &["people", "requests"]),
    ("pairing", &["secrets"]),
    ("resolvers", &["requests", "store"]),
    ("decisions", &["clock", "display", "ids", "requests", "people", "resolvers", "store"]),
    ("wording", &["decisions", "display", "requests", "store"]),
    ("broadcaster", &["display", "ids", "people", "requests", "store", "wording"]),
    ("router", &["admin", "decisions", "ids", "pairing", "requests", "store", "wording"]),
    ("admin", &["clock", "decisions", "ids", "pairing", "people", "requests", "secrets", "store"]),
    // edges
    ("wire", &["broadcaster", "clock", "ids", "requests", "store"]),
    ("lifecycle", &[]),
    ("wakeups", &["ids"]),
    ("config", &["decisions", "requests", "store"]),
    ("telemetry", &["config", "display"]),
    (
        "desk",
        &[
            "broadcaster",
            "clock",
            "ids",
            "lifecycle",
            "requests",
            "secrets",
            "store",
            "wakeups",
            "wording",
        ],
    ),
    (
        "jobs",
        &[
            "broadcaster",
            "clock",
            "decisions",
            "ids",
            "lifecycle",
            "people",
            "requests",
            "router",
            "store",
            "telemetry",
            "wakeups",
            "wire",
            "wording",
        ],
    ),
    (
        "api",
        &[
            "clock",
            "decisions",
            "ids",
            "jobs",
            "lifecycle",
            "people",
            "requests",
            "store",
            "telemetry",
            "wakeups",
            "wire",
        ],
    ),
];

/// These put everything together.
const COMPOSE: &[&str] = &["wiring", "cli", "lib", "main"];

fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_module_uses_only_what_lies_below_it() {
    let table: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, &mut all);
    let word = regex::Regex::new(r"crate::([a-z_]+)").unwrap();
    let mut wrong = Vec::new();
    for path in all {
        let relative = path.strip_prefix(&src).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if COMPOSE.contains(&module) {
            continue;
        }
        let Some(allowed) = table.get(module) else {
            wrong.push(format!("{module} has no row in the table"));
            continue;
        };
        let text = std::fs::read_to_string(&path).unwrap();
        for found in word.captures_iter(&text) {
            let used = found.get(1).unwrap().as_str();
            if used != module && !allowed.contains(&used) {
                wrong.push(format!("{} uses {used}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_the_wiring_knows_an_adapter() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, &mut all);
    let wiring = src.join("wiring");
    for path in all.iter().filter(|path| !path.starts_with(&wiring)) {
        let text = std::fs::read_to_string(path).unwrap();
        for adapter in ["sayso_console::", "sayso_slack::", "sayso_telegram::"] {
            assert!(!text.contains(adapter), "{}", path.display());
        }
    }
}

#[test]
fn an_adapter_depends_on_the_contract_and_on_nothing_else_of_ours() {
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
    for entry in std::fs::read_dir(adapters).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let table: toml::Table = std::fs::read_to_string(&manifest).unwrap().parse().unwrap();
        let dependencies = table["dependencies"].as_table().unwrap();
        for name in dependencies.keys().filter(|name| name.starts_with("sayso")) {
            assert_eq!(name, "sayso-channel", "{}", manifest.display());
        }
        for database in ["sqlx", "rusqlite"] {
            assert!(!dependencies.contains_key(database), "{}", manifest.display());
        }
    }
}

#[test]
fn the_contract_has_no_word_for_what_a_card_is_about() {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters/contract/src");
    let mut all = Vec::new();
    files(&contract, &mut all);
    let words =
        regex::Regex::new(r"(?i)\b(requests?|guardians?|principals?|approv\w*|den(y|ied))\b");
    let words = words.unwrap();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = words.find(&text).map(|m| m.as_str().to_owned());
        assert_eq!(found, None, "{}", path.display());
    }
}

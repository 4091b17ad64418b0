//! `sayso explain` and other commands as a shell sees them.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::operations::Home;

fn explain(lines: &str) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sayso"))
        .args(["explain", "reply", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn cases_are_read_from_lines_and_explained_in_order() {
    let read = explain(concat!(
        "{\"id\":\"a\",\"mode\":\"reply\",\"pending\":\"approval\",\"text\":\"yes go head with the plan\"}\n",
        "\n",
        "{\"id\":\"b\",\"pending\":\"choice\",\"options\":5,\"text\":\"the 4th one\"}\n",
        "{\"id\":\"c\",\"pending\":\"question\",\"text\":\"yes\"}\n",
        "{\"id\":\"d\",\"pending\":\"approval\",\"text\":\"no thanks\"}\n",
    ));
    let short: Vec<Value> =
        read.iter().map(|r| json!([r["id"], r["reading"], r["clean"], r["pick"]])).collect();
    assert_eq!(
        short,
        [
            json!(["a", "approve", false, null]),
            json!(["b", null, false, 3]),
            json!(["c", null, false, null]),
            json!(["d", "reject", true, null]),
        ]
    );
}

#[test]
fn a_wrong_use_ends_with_two_and_changes_nothing() {
    let home = Home::new();
    for args in [
        &["explain", "reply", "yes", "--pending", "odd"][..],
        &["explain", "reply"],
        &["nonsense"],
        &["approve"],
        &["approve", "--tool", "x", "--input", "{"],
        &["approve", "--tool", "x", "--input", "{\"a\":1,\"a\":2}"],
        &["approve", "--input", "{}", "--", "ls"],
        &["approve", "--risk", "huge", "--", "ls"],
        &["ask", ""],
        &["ask", "Where?", "--option", "only one"],
        &["ask", "Where?", "--wait", "soon"],
        &["say", " "],
        &["requests", "list", "--status", "odd"],
    ] {
        let output = home.run(args);
        assert_eq!(output.code, 2, "{args:?}: {}", output.err);
        assert!(!output.err.is_empty(), "{args:?}");
    }
    let listed: Value =
        serde_json::from_str(&home.run(&["requests", "list", "--json"]).out).unwrap();
    assert_eq!(listed["requests"], json!([]));
}

#[test]
fn the_help_of_every_command_is_there() {
    for command in [
        "serve", "guardian", "agent", "ask", "approve", "requests", "say", "console", "explain",
        "audit", "db", "doctor",
    ] {
        let output = Home::new().run(&[command, "--help"]);
        assert_eq!(output.code, 0, "{command}");
        assert!(output.out.contains("Usage: sayso"), "{command}");
    }
}

//! A disk that gets full under a running gateway.
//!
//! The disk is a small file system in memory that only a shell of its own sees;
//! making it needs the right to. Where that can't be had, the test says so.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A shell in a mount namespace of its own, in an empty file system of 300 MiB.
struct Island {
    shell: Child,
    answers: BufReader<std::process::ChildStdout>,
    _dir: tempfile::TempDir,
}

impl Island {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "mount -t tmpfs -o size=300m none {0} && cd {0} && echo here || exit 1
             while read -r line; do eval \"$line\" 2>>log; echo \"status $?\"; done
             [ -z \"$server\" ] || kill $server",
            dir.path().display()
        );
        let mut shell = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .env("SAYSO_DATA_DIR", dir.path())
            .env("SAYSO_SERVER__LISTEN", "127.0.0.1:0")
            .env("SAYSO_REQUESTS__MAX_OPEN_PER_GUARDIAN", "1000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut answers = BufReader::new(shell.stdout.take()?);
        let mut line = String::new();
        answers.read_line(&mut line).ok()?;
        if line != "here\n" {
            // Its status has nothing to add.
            let _ = shell.wait();
            return None;
        }
        Some(Self { shell, answers, _dir: dir })
    }

    /// What a command printed, and its status.
    fn run(&mut self, command: &str) -> (String, i32) {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut out = String::new();
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the shell ended");
            if let Some(status) = line.strip_prefix("status ") {
                return (out, status.trim().parse().unwrap());
            }
            out.push_str(&line);
        }
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        // End of input ends the shell, which ends the gateway.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[tokio::test]
async fn on_a_full_disk_nothing_new_is_taken_but_what_waits_is_decided() {
    let Some(mut island) = Island::new() else {
        eprintln!("SKIPPED: a full disk (no right to mount a file system here)");
        return;
    };
    let sayso = env!("CARGO_BIN_EXE_sayso");
    island.run(&format!("{sayso} serve >ready & server=$!"));
    island.run("until grep -q http ready; do sleep 0.05; done");
    let base = island.run("cat ready").0;
    let base = base.split_whitespace().find(|word| word.starts_with("http")).unwrap();
    let base = base.split("/console").next().unwrap().to_owned();
    let added = island.run(&format!("{sayso} agent add robot --json")).0;
    let added: Value = serde_json::from_str(&added).unwrap();
    let key = added["key"].as_str().unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let park = async |n: usize| {
        let body = json!({
            "kind": "question", "title": format!("{n}?"), "body": "x".repeat(20_000),
        });
        http.post(format!("{base}/v1/requests"))
            .bearer_auth(key)
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .unwrap()
    };
    let first = park(0).await;
    assert_eq!(first.status(), 201);
    let first: Value = serde_json::from_str(&first.text().await.unwrap()).unwrap();
    let code = first["code"].as_str().unwrap().to_owned();
    let ready = async || http.get(format!("{base}/readyz")).send().await.unwrap().status();

    island.run("cat /dev/zero >filler");
    // What the log has already room for still fits.
    let mut refused = None;
    for n in 1..400 {
        let answer = park(n).await;
        if answer.status() != 201 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a full disk is noticed");
    assert_eq!(refused.status(), 507, "{}", island.run("cat log").0);
    assert!(refused.text().await.unwrap().contains("disk_full"));
    assert_eq!(ready().await, 503);

    let (said, status) = island.run(&format!("{sayso} say '{code} an answer' --json"));
    assert_eq!(status, 0, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["result"], "applied", "{said}");

    island.run("rm filler");
    let again = async {
        while ready().await != 200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again).await.expect("it is taken again");
    assert_eq!(park(1_000).await.status(), 201);
}

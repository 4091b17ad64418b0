//! The program as an operator uses it: commands, a server, stopping, doctor.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A data directory, and commands on it.
pub(crate) struct Home {
    pub(crate) dir: TempDir,
}

pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sayso"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("SAYSO_DATA_DIR", self.dir.path())
            .env("SAYSO_SERVER__LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        Output {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&output.out)
            .unwrap_or_else(|_| panic!("{args:?}: {} {}", output.out, output.err))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn serve(&self) -> Server {
        let mut child = self.start(&["serve"]);
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let base = line
            .split_whitespace()
            .find(|word| word.starts_with("http"))
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        let base = base.split("/console").next().unwrap().to_owned();
        Server { child, base, line }
    }

    /// The first pending request, once there is one.
    pub(crate) fn pending(&self) -> Value {
        let started = Instant::now();
        loop {
            let listed = self.json(&["requests", "list", "--status", "pending"]);
            if let Some(request) = listed["requests"].as_array().and_then(|all| all.first()) {
                return request.clone();
            }
            assert!(started.elapsed() < Duration::from_secs(20), "a request appears in time");
        }
    }
}

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) base: String,
    line: String,
}

impl Server {
    fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(child: &mut Child) -> i32 {
    child.wait().unwrap().code().unwrap_or(-1)
}

#[test]
fn a_question_at_the_keyboard_gets_its_answer() {
    let home = Home::new();
    let _server = home.serve();
    let mut ask = home.start(&["ask", "Where?", "--option", "EU", "--option", "US"]);
    let request = home.pending();

    let said = home.json(&["say", "2"]);

    assert_eq!(said["result"], "applied");
    assert_eq!(said["request"], request["id"]);
    assert_eq!(code(&mut ask), 0);
    let mut answer = String::new();
    BufReader::new(ask.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "US\n");
}

#[test]
fn a_command_runs_only_when_it_is_approved_and_exactly_as_it_was_shown() {
    let home = Home::new();
    let _server = home.serve();
    let file = home.dir.path().join("it ran");
    let path = file.display().to_string();
    let args =
        ["approve", "--", "sh", "-c", "printf '%s' \"$1\" > \"$2\"; exit 7", "x", "a  b", &path];

    let mut denied = home.start(&args);
    let request = home.pending();
    let shown = request["tool"]["input"]["command"].as_str().unwrap();
    assert!(shown.contains("'a  b'"), "{shown}");
    home.run(&["requests", "decide", request["id"].as_str().unwrap(), "deny", "--reason", "no"]);
    assert_eq!(code(&mut denied), 10);
    assert!(!file.exists(), "a denied command does not run");

    let mut approved = home.start(&args);
    let request = home.pending();
    let decided = home.json(&["requests", "decide", request["id"].as_str().unwrap(), "approve"]);
    assert_eq!(decided["result"], "applied");
    assert_eq!(code(&mut approved), 7, "its own status");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a  b");
}

#[test]
fn every_end_has_its_own_status() {
    let home = Home::new();
    let _server = home.serve();
    let end = |args: &[&str], decide: &[&str]| {
        let mut asking = home.start(args);
        if !decide.is_empty() {
            let id = home.pending()["id"].as_str().unwrap().to_owned();
            let args: Vec<&str> =
                decide.iter().map(|a| if *a == "ID" { &id } else { *a }).collect();
            home.run(&args);
        }
        code(&mut asking)
    };
    assert_eq!(end(&["ask", "a?"], &["requests", "decide", "ID", "answer", "x"]), 0);
    assert_eq!(
        end(&["approve", "--tool", "x", "--input", "1"], &["requests", "decide", "ID", "deny"]),
        10
    );
    assert_eq!(end(&["ask", "b?", "--expires-in", "1s"], &[]), 11);
    assert_eq!(end(&["ask", "c?"], &["requests", "cancel", "ID"]), 12);
    assert_eq!(end(&["ask", "d?"], &["requests", "decide", "ID", "skip"]), 14);
    assert_eq!(end(&["ask", "e?", "--wait", "300ms"], &[]), 15);
}

#[test]
fn where_no_surface_runs_the_asker_learns_it_at_once() {
    let home = Home::new();
    std::fs::write(home.dir.path().join("sayso.toml"), "[console]\nenabled = false\n").unwrap();
    let _server = home.serve();
    let started = Instant::now();

    let output = home.run(&["ask", "Anybody?"]);

    assert_eq!(output.code, 13, "{}", output.err);
    assert!(started.elapsed() < Duration::from_secs(15));
    assert!(output.err.contains("switched off"), "{}", output.err);
    assert_eq!(home.pending()["reachable"], false, "the request stays");
}

#[test]
fn commands_work_without_a_server() {
    let home = Home::new();
    let mut ask = home.start(&["ask", "Name?"]);
    let request = home.pending();
    let code_of = request["code"].as_str().unwrap();

    let said = home.json(&["say", &format!("{code_of} feature/x")]);

    assert_eq!(said["result"], "applied", "{said}");
    assert_eq!(code(&mut ask), 0);
    let again = home.json(&["say", &format!("{code_of} other")]);
    assert_eq!(
        (&again["result"], &again["status"]),
        (&json!("already_decided"), &json!("answered"))
    );
    let shown = home.json(&["requests", "show", code_of]);
    let kinds: Vec<&str> =
        shown["trail"].as_array().unwrap().iter().map(|l| l["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["request.created", "request.answered", "decision.lost"]);
}

#[test]
fn the_audit_can_be_exported_and_verified_and_tampering_ends_with_one() {
    let home = Home::new();
    home.run(&["ask", "Name?", "--wait", "10ms"]);
    home.run(&["say", "x"]);
    let export = home.run(&["audit", "export"]).out;
    let lines: Vec<Value> = export.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(lines.len() >= 2);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], i + 1);
        for key in ["at", "kind", "request", "actor", "channel", "before", "after", "hash"] {
            assert!(line.get(key).is_some(), "{key}");
        }
    }
    assert_eq!(home.run(&["audit", "verify"]).code, 0);

    let anchor = home.run(&["audit", "anchor"]).out;
    assert_eq!(
        anchor.trim(),
        format!("{} {}", lines.len(), lines.last().unwrap()["hash"].as_str().unwrap())
    );
    let verify = |name: &str, text: &str| {
        let file = home.dir.path().join(name).display().to_string();
        std::fs::write(&file, text).unwrap();
        home.run(&["audit", "verify", "--anchor", &file])
    };
    assert_eq!(verify("anchor", &anchor).code, 0);
    let cut = verify("later", &anchor.replacen(char::is_numeric, "9", 1));
    assert!(cut.code == 1 && cut.out.contains("missing"), "a chain without its end: {}", cut.out);
    let other = verify("other", "1 0000");
    assert!(other.code == 1 && other.out.contains("row 1"), "{}", other.out);
    assert_eq!(verify("empty", "\n").code, 1);
    assert_eq!(verify("nonsense", "one two").code, 1);

    tamper(&home.dir.path().join("sayso.db"));
    assert_eq!(home.run(&["audit", "verify"]).code, 1);
}

fn tamper(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        sqlx::any::install_default_drivers();
        let pool = sqlx::AnyPool::connect(&format!("sqlite://{}", path.display())).await.unwrap();
        sqlx::query("UPDATE audit SET actor = 'x' WHERE seq = 1").execute(&pool).await.unwrap();
        pool.close().await;
    });
}

#[test]
fn a_server_stops_gracefully_while_calls_wait() {
    let home = Home::new();
    let key = home.json(&["agent", "add", "robot"])["key"].as_str().unwrap().to_owned();
    let mut server = home.serve();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (waited, took) = runtime.block_on(async {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let parked = http
            .post(format!("{}/v1/requests", server.base))
            .bearer_auth(&key)
            .header("content-type", "application/json")
            .body(r#"{"kind":"question","title":"?"}"#)
            .send()
            .await
            .unwrap();
        let parked: Value = serde_json::from_str(&parked.text().await.unwrap()).unwrap();
        let url =
            format!("{}/v1/requests/{}?wait=100", server.base, parked["id"].as_str().unwrap());
        let events = http.get(format!("{}/v1/events", server.base)).bearer_auth(&key).send();
        let events = events.await.unwrap();
        let waiting = tokio::spawn(http.get(url).bearer_auth(&key).send());
        tokio::time::sleep(Duration::from_millis(200)).await;
        let started = Instant::now();
        server.signal("-TERM");
        let answer = waiting.await.unwrap().unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        drop(events.text().await);
        (answer, started)
    });
    assert_eq!(code(&mut server.child), 0);
    assert!(took.elapsed() < Duration::from_secs(10), "{:?}", took.elapsed());
    assert_eq!(waited["status"], "pending", "a wait that is cut is no end");
}

#[test]
fn two_servers_never_share_a_file() {
    let home = Home::new();
    let _first = home.serve();
    let second = home.run(&["serve"]);
    assert_eq!(second.code, 1);
    assert!(second.err.contains("another gateway runs"), "{}", second.err);
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let home = Home::new();
    let sick = home.run(&["doctor"]);
    assert_eq!(sick.code, 1);
    assert!(sick.out.contains("WRONG gateway") && sick.out.contains("sayso serve"), "{}", sick.out);

    let server = home.serve();
    open_console(&home, &server);
    let well = home.run(&["doctor"]);
    assert_eq!(well.code, 0, "{}", well.out);
}

fn open_console(home: &Home, server: &Server) {
    let url = home.json(&["console", "link"])["url"].as_str().unwrap().to_owned();
    let secret = url.split("link=").nth(1).unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let policy = reqwest::redirect::Policy::none();
        let http = reqwest::Client::builder().no_proxy().redirect(policy).build().unwrap();
        let answer = http
            .post(format!("{}/console/login", server.base))
            .header("origin", &server.base)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("link={secret}"))
            .send()
            .await
            .unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let page = http.get(format!("{}/console/", server.base)).header("cookie", cookie);
        assert!(page.send().await.unwrap().status().is_success());
    });
}

#[test]
fn health_metrics_and_the_one_line_at_the_start() {
    let home = Home::new();
    let server = home.serve();
    assert!(server.line.starts_with("Sayso is ready. Console for owner: http://127.0.0.1:"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        for path in ["/livez", "/readyz"] {
            let answer = http.get(format!("{}{path}", server.base)).send().await.unwrap();
            assert_eq!(answer.text().await.unwrap(), "ok\n", "{path}");
        }
        let metrics = http.get(format!("{}/metrics", server.base)).send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        for name in [
            "sayso_requests_pending 0",
            "sayso_decision_seconds_count",
            "sayso_delivery_seconds_count",
            "sayso_queue_items{queue=\"inbox\"} 0",
            "sayso_queue_lag_seconds{queue=\"inbox\"}",
        ] {
            assert!(metrics.contains(name), "{name}: {metrics}");
        }
    });
}

#[test]
fn secrets_never_reach_logs_errors_or_the_database_in_clear() {
    let home = Home::new();
    let added = home.json(&["agent", "add", "robot"]);
    let key = added["key"].as_str().unwrap();
    let link = home.json(&["console", "link"])["url"].as_str().unwrap().to_owned();
    let secret = link.split("link=").nth(1).unwrap();
    let listed = home.run(&["agent", "list", "--json"]);
    assert!(!listed.out.contains(key) && !listed.out.contains("whsec_"));

    let mut stored = Vec::new();
    for name in ["sayso.db", "sayso.db-wal"] {
        stored.extend(std::fs::read(home.dir.path().join(name)).unwrap_or_default());
    }
    let stored = String::from_utf8_lossy(&stored).into_owned();
    assert!(!stored.contains(key) && !stored.contains(secret));

    let wrong =
        home.command(&["doctor"]).env("SAYSO_DATABASE__URL", "mysql://u:hunter22@h/d").output();
    let wrong = wrong.unwrap();
    let words = [wrong.stdout, wrong.stderr].concat();
    assert!(!String::from_utf8_lossy(&words).contains("hunter22"));
}

#[test]
fn a_restored_backup_lets_no_old_card_decide() {
    let home = Home::new();
    home.run(&["ask", "Name?", "--wait", "10ms"]);
    let code_of = home.pending()["code"].as_str().unwrap().to_owned();
    let backup = home.dir.path().join("backup.db").display().to_string();
    assert_eq!(home.run(&["db", "backup", &backup]).code, 0);
    assert_eq!(home.run(&["db", "backup", &backup]).code, 1, "it never overwrites");
    home.run(&["say", &format!("{code_of} first")]);
    let mode = std::fs::metadata(&backup).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else reads it");
    let text = home.dir.path().join("notes.txt");
    std::fs::write(&text, "no database").unwrap();
    assert_eq!(home.run(&["db", "restore", &text.display().to_string()]).code, 1);
    let said = home.json(&["say", &format!("{code_of} again")]);
    assert_eq!(said["status"], "answered", "what is no backup changes nothing");
    let server = home.serve();
    assert_eq!(home.run(&["db", "restore", &backup]).code, 1, "not while a gateway runs");
    drop(server);

    let restored = home.json(&["db", "restore", &backup]);

    assert_eq!(restored["cancelled"], 1);
    let said = home.json(&["say", &format!("{code_of} second")]);
    assert_eq!(
        (&said["result"], &said["status"]),
        (&json!("already_decided"), &json!("cancelled"))
    );
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn guardians_come_and_go() {
    let home = Home::new();
    assert_eq!(home.run(&["guardian", "add", "ada"]).code, 0);
    assert_eq!(home.run(&["guardian", "add", "ada"]).code, 1);
    assert_eq!(home.run(&["guardian", "add", "not a name"]).code, 1);
    home.run(&["ask", "Name?", "--wait", "10ms"]);
    let kept = home.run(&["guardian", "remove", "ada"]);
    assert_eq!(kept.code, 1);
    assert!(kept.err.contains("--force"), "{}", kept.err);
    assert_eq!(home.run(&["guardian", "remove", "ada", "--force"]).code, 0);
    let listed = home.json(&["requests", "list"]);
    assert_eq!(listed["requests"][0]["status"], "cancelled");

    home.run(&["guardian", "add", "bob"]);
    home.run(&["guardian", "add", "cleo"]);
    let unclear = home.run(&["ask", "Name?"]);
    assert_eq!(unclear.code, 2);
    assert!(unclear.err.contains("--guardian"), "{}", unclear.err);
    for (user, channel) in [("@bob", "telegram"), ("777000", "telegram")] {
        let bound = home.run(&["guardian", "bind", "bob", "--channel", channel, "--user", user]);
        assert_eq!(bound.code, 1, "{user}");
    }
    let on_slack = ["guardian", "bind", "bob", "--channel", "slack", "--team", "T0001", "--user"];
    let named = home.run(&[&on_slack[..], &["bob"]].concat());
    assert!(named.code == 1 && named.err.contains("an id like"), "{}", named.err);
    let args = ["guardian", "bind", "bob", "--channel", "telegram", "--user", "700001"];
    assert_eq!(home.run(&args).code, 0);
    assert_eq!(home.run(&args).code, 1, "an account belongs to one person");
}

#[test]
fn a_command_that_is_stopped_withdraws_what_it_asked() {
    let home = Home::new();
    let mut asking = home.start(&["approve", "--", "true"]);
    let request = home.pending();
    let status = Command::new("kill").args(["-TERM", &asking.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(code(&mut asking), 143);
    let shown = home.json(&["requests", "show", request["id"].as_str().unwrap()]);
    assert_eq!(shown["status"], "cancelled");
    assert_eq!(shown["outcome"]["reason"], "the command stopped waiting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_on_slack_belongs_to_the_bots_own_workspace_unless_another_is_named() {
    use sayso_emulators::slack::{Credentials, TEAM_ID, Workspace};

    let home = Home::new();
    let bind = |user: &'static str, team: Option<&'static str>, url: &str| {
        let mut args = vec!["guardian", "bind", "bob", "--channel", "slack", "--user", user];
        args.extend(team.into_iter().flat_map(|team| ["--team", team]));
        let mut command = home.command(&args);
        command.env("SAYSO_SLACK__BOT_TOKEN", "xoxb-stand-in");
        command.env("SAYSO_SLACK__APP_TOKEN", "xapp-stand-in").env("SAYSO_SLACK__API_URL", url);
        command.output().unwrap()
    };
    home.run(&["guardian", "add", "bob"]);
    let slack = Workspace::start(Credentials::default()).await;
    let url = slack.api_url().to_string();
    assert!(bind("U0BOB0002", None, &url).status.success());
    assert!(bind("U0BOB0003", Some("T0OTHER"), &url).status.success());
    let unasked = bind("U0BOB0004", None, "http://127.0.0.1:1/api");
    assert!(String::from_utf8_lossy(&unasked.stderr).contains("--team"), "{unasked:?}");

    let location = sayso::store::Location::Sqlite(home.dir.path().join("sayso.db"));
    let clock = sayso::clock::Clock::system();
    let store = sayso::store::Store::open(&location, clock).await.unwrap();
    let mut tx = store.read().await.unwrap();
    for (realm, user) in [(TEAM_ID, "U0BOB0002"), ("T0OTHER", "U0BOB0003")] {
        let bound = sayso::store::people::find_binding(&mut tx, "slack", realm, user).await;
        let address = bound.unwrap().unwrap().address;
        assert_eq!(address, Some(format!("{realm}:@{user}")), "opened when it is needed");
    }
    let none = sayso::store::people::find_binding(&mut tx, "slack", TEAM_ID, "U0BOB0004").await;
    assert_eq!(none.unwrap(), None);
}

//! What the benchmarks share: the program, a client, the machine's raw limits.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The time of one flush of 4 KiB: median over 200.
pub fn flush_micros(dir: &Path) -> f64 {
    use std::io::{Seek as _, Write as _};
    let mut file = std::fs::File::create(dir.join("flush")).unwrap();
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            file.rewind().unwrap();
            file.write_all(&[7; 4096]).unwrap();
            let started = Instant::now();
            file.sync_data().unwrap();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[100]
}

pub fn quantile(times: &mut [f64], q: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * q) as usize]
}

pub struct Program {
    pub child: Child,
    pub address: String,
    pub ready: Duration,
    pub home: tempfile::TempDir,
}

impl Program {
    pub fn command(home: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sayso"));
        command
            .current_dir(home)
            .env("SAYSO_DATA_DIR", home)
            .env("SAYSO_SERVER__LISTEN", "127.0.0.1:0")
            .env("SAYSO_REQUESTS__MAX_OPEN_PER_GUARDIAN", "1000000");
        command
    }

    pub fn start(home: tempfile::TempDir) -> Self {
        // A port that was free a moment ago; what is printed may be a public
        // address.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let started = Instant::now();
        let mut child = Self::command(home.path())
            .arg("serve")
            .env("SAYSO_SERVER__LISTEN", &address)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = started.elapsed();
        Self { child, address, ready, home }
    }

    pub fn fresh() -> Self {
        Self::start(
            tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/target").unwrap(),
        )
    }

    pub fn agent(&self) -> String {
        let output = Self::command(self.home.path())
            .args(["agent", "add", "robot", "--json"])
            .output()
            .unwrap();
        let added: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        added["key"].as_str().unwrap().to_owned()
    }

    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP/1.1 exchange on a connection that stays open.
pub struct Line(pub TcpStream);

impl Line {
    pub async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub async fn send(&mut self, address: &str, key: &str, start: &str, body: &str) {
        let call = format!(
            "{start} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(call.as_bytes()).await.unwrap();
    }

    /// The body of the answer.
    pub async fn receive(&mut self) -> String {
        let mut read = Vec::new();
        loop {
            let mut buffer = [0; 4096];
            let count = self.0.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the server hung up");
            read.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&read).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "))
                .and_then(|l| l.parse::<usize>().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return body.to_owned();
            }
        }
    }

    pub async fn ask(&mut self, address: &str, key: &str, start: &str, body: &str) -> String {
        self.send(address, key, start, body).await;
        self.receive().await
    }
}

pub fn id_of(body: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    value["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

//! A hub on loopback: model information, the tree in pages, resolving with redirects to a storage, ranges.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sha1::Sha1;
use sha2::{Digest, Sha256};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub const REPO: &str = "tests/tiny";

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub fn git_id(content: &[u8]) -> String {
    let mut sum = Sha1::new_with_prefix(format!("blob {}\0", content.len()));
    sum.update(content);
    hex(&sum.finalize())
}

/// Bytes without a short period, so that misplaced ones are seen.
pub fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// What the hub does; tests change it as they go.
#[derive(Default)]
pub struct Hub {
    pub files: BTreeMap<String, Vec<u8>>,
    /// Sent in place of the file's content, the published checksum staying as it is.
    pub substitutes: BTreeMap<String, Vec<u8>>,
    /// Connections to break off in the middle of a body.
    pub breaks_left: usize,
    pub ignores_ranges: bool,
    /// Answers everything with this status, error code and message, unless the token comes along.
    pub refusal: Option<(u16, &'static str, &'static str)>,
    pub token: Option<String>,
    pub requests: Vec<String>,
}

pub struct Server {
    pub endpoint: String,
    pub hub: Arc<Mutex<Hub>>,
}

impl Server {
    pub fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let endpoint = format!("http://{}", listener.local_addr().expect("address"));
        let files = files.iter().map(|(path, content)| (path.to_string(), content.clone())).collect();
        let hub = Arc::new(Mutex::new(Hub { files, ..Hub::default() }));
        // Large files lie on another server, as the hub's do.
        let storage = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let storage_address = format!("http://{}", storage.local_addr().expect("address"));
        for listener in [listener, storage] {
            let (hub, bases) = (hub.clone(), (endpoint.clone(), storage_address.clone()));
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (hub, bases) = (hub.clone(), bases.clone());
                    std::thread::spawn(move || answer(stream, &hub, &bases.0, &bases.1));
                }
            });
        }
        Self { endpoint, hub }
    }

    pub fn set(&self, change: impl FnOnce(&mut Hub)) {
        change(&mut self.hub.lock().expect("hub"));
    }

    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.hub.lock().expect("hub").requests)
    }
}

/// Large files, as the hub has them, are the weights.
pub fn is_large(path: &str) -> bool {
    path.ends_with(".safetensors") || path.ends_with(".gguf")
}

fn answer(stream: TcpStream, hub: &Mutex<Hub>, base: &str, storage: &str) {
    let mut reader = BufReader::new(stream.try_clone().expect("stream"));
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or("").to_string(), words.next().unwrap_or("").to_string());
    let (mut start, mut token) = (None, None);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.trim().split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "range" => start = value.trim_start_matches("bytes=").trim_end_matches('-').parse().ok(),
            "authorization" => token = value.strip_prefix("Bearer ").map(str::to_string),
            _ => {}
        }
    }
    let mut hub = hub.lock().expect("hub");
    let range = start.map_or(String::new(), |start: usize| format!(" from {start}"));
    hub.requests.push(format!("{method} {target}{range}"));
    respond(stream, &mut hub, (base, storage), &method, &target, start, token);
}

fn head(status: &str, headers: &[(&str, String)]) -> String {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

fn respond(
    mut stream: TcpStream,
    hub: &mut Hub,
    (base, storage): (&str, &str),
    method: &str,
    target: &str,
    start: Option<usize>,
    token: Option<String>,
) {
    let mut send = |head: String, body: &[u8]| {
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    };
    let is_stored = target.starts_with("/storage/");
    if let Some((status, code, message)) = hub.refusal
        && !is_stored
        && (token.is_none() || token != hub.token)
    {
        let headers = [
            ("X-Error-Code", code.to_string()),
            ("X-Error-Message", message.to_string()),
            ("Content-Length", "0".to_string()),
        ];
        return send(head(&format!("{status} Refused"), &headers), b"");
    }
    // A token that reached the storage would be given away; the broken connection fails the test.
    assert!(!is_stored || token.is_none(), "the token went to another host");
    let not_found = || head("404 Not Found", &[("Content-Length", "0".to_string())]);
    let json = |body: &str, link: Option<String>| {
        let mut headers =
            vec![("Content-Type", "application/json".into()), ("Content-Length", body.len().to_string())];
        headers.extend(link.map(|link| ("Link", link)));
        head("200 OK", &headers)
    };
    if target == format!("/api/models/{REPO}/revision/main") {
        let body = format!(r#"{{"_id":"1","id":"{REPO}","sha":"{COMMIT}","siblings":[],"tags":[]}}"#);
        return send(json(&body, None), body.as_bytes());
    }
    if let Some(query) = target.strip_prefix(&format!("/api/models/{REPO}/tree/{COMMIT}?")) {
        let (body, link) = tree_page(hub, base, query);
        return send(json(&body, link), body.as_bytes());
    }
    let resolved = target.strip_prefix(&format!("/{REPO}/resolve/{COMMIT}/"));
    let Some(path) = resolved.or(target.strip_prefix("/storage/")) else {
        return send(not_found(), b"");
    };
    let Some(content) = hub.files.get(path).cloned() else {
        return send(not_found(), b"");
    };
    if resolved.is_some() && is_large(path) {
        let headers = [
            ("Location", format!("{storage}/storage/{path}")),
            ("X-Repo-Commit", COMMIT.to_string()),
            ("X-Linked-Etag", format!("\"{}\"", sha256(&content))),
            ("X-Linked-Size", content.len().to_string()),
            ("Content-Length", "0".to_string()),
        ];
        return send(head("302 Found", &headers), b"");
    }
    let body = hub.substitutes.get(path).cloned().unwrap_or(content);
    let start = start.filter(|_| !hub.ignores_ranges);
    let (status, rest) = match start {
        Some(start) if start >= body.len() => {
            return send(head("416 Range Not Satisfiable", &[]), b"");
        }
        Some(start) => ("206 Partial Content", &body[start..]),
        None => ("200 OK", &body[..]),
    };
    let mut headers =
        vec![("ETag", format!("\"{}\"", git_id(&body))), ("Content-Length", rest.len().to_string())];
    if let Some(start) = start {
        headers.push(("Content-Range", format!("bytes {start}-{}/{}", body.len() - 1, body.len())));
    }
    let breaks = hub.breaks_left > 0 && method == "GET" && is_large(path);
    let sent = if breaks { rest.len() / 2 } else { rest.len() };
    hub.breaks_left -= usize::from(breaks);
    send(head(status, &headers), if method == "HEAD" { b"" } else { &rest[..sent] });
}

/// The tree in pages of three entries, as the hub pages at a thousand.
fn tree_page(hub: &Hub, base: &str, query: &str) -> (String, Option<String>) {
    assert!(query.contains("recursive=true"), "{query}");
    let from: usize = query.split("cursor=").nth(1).and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let mut entries = vec![r#"{"type":"directory","oid":"d","size":0,"path":"onnx"}"#.to_string()];
    for (path, content) in &hub.files {
        let large = if is_large(path) {
            let (sum, size) = (sha256(content), content.len());
            format!(r#","lfs":{{"oid":"{sum}","size":{size},"pointerSize":134}},"xetHash":"{sum}""#)
        } else {
            String::new()
        };
        let oid = if is_large(path) { git_id(b"a pointer") } else { git_id(content) };
        entries.push(format!(
            r#"{{"type":"file","oid":"{oid}","size":{},"path":"{path}"{large}}}"#,
            content.len()
        ));
    }
    let page: Vec<String> = entries.iter().skip(from).take(3).cloned().collect();
    let url = format!("{base}/api/models/{REPO}/tree/{COMMIT}?recursive=true&cursor={}", from + 3);
    let next = (from + 3 < entries.len()).then(|| format!("<{url}>; rel=\"next\""));
    (format!("[{}]", page.join(",")), next)
}

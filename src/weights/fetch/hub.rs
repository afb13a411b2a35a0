//! The Hugging Face hub: what a repository holds (hf-hub), and resumable downloads of it (reqwest).
//!
//! hf-hub 1.0 resolves revisions, lists trees and maps the hub's refusals. It does not do the rest: its blocking API
//! downloads a file whole or not at all, with no way to go on from a part; its tree entries lose the sha256, which the
//! hub calls `lfs.oid`; and its `get_file_metadata` follows redirects away from the `X-Linked-Etag` that also holds it.
//! So the checksum is read by one HEAD request a large file, and the bytes come by ranged GET over the same reqwest.
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use hf_hub::repository::RepoTreeEntry;
use hf_hub::{HFClientSync, HFError, HFRepositorySync, RepoTypeModel, split_id};
use reqwest::blocking::{Client, Response};
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, LOCATION, RANGE};
use reqwest::{StatusCode, Url, redirect};

use super::FetchError;
use super::part_file::{Checksum, Expected, PartFile};
use super::progress::FetchProgress;
use super::selection::select;
use super::settings::FetchSettings;
use crate::weights::lock::LockedFile;
use crate::weights::manifest::{HubSource, check_relative};

const USER_AGENT: &str = concat!("longwick/", env!("CARGO_PKG_VERSION"));
/// For connecting, and for each read; not for a whole download.
const PATIENCE: Duration = Duration::from_secs(60);
const CHUNK_BYTES: usize = 1 << 18;
const MAX_REDIRECTS: usize = 10;

/// A repository at one commit.
pub(super) struct HubRepo<'a> {
    settings: &'a FetchSettings,
    source: &'a HubSource,
    pub(super) commit: String,
    api: HFRepositorySync<RepoTypeModel>,
    client: Client,
    unredirected: Client,
}

/// One file to download.
pub(super) struct HubFile {
    pub(super) path: String,
    pub(super) expected: Expected,
}

/// How a try to download ended, short of an error that ends the download.
enum Try {
    Done,
    BrokenOff(String),
}

impl<'a> HubRepo<'a> {
    /// Resolves the revision to a commit.
    pub(super) fn open(settings: &'a FetchSettings, source: &'a HubSource) -> Result<Self, FetchError> {
        let hub_error = |error| api_error(&settings.endpoint, source, error);
        let mut builder = hf_hub::HFClient::builder()
            .endpoint(&settings.endpoint)
            .user_agent(USER_AGENT)
            .cache_enabled(false)
            .retry_base_delay(settings.retry_delay);
        if let Some(token) = &settings.token {
            builder = builder.token(token);
        }
        let api: HFClientSync = builder.build_sync().map_err(hub_error)?;
        let (owner, name) = split_id(&source.repo);
        let api = api.model(owner, name);
        let info = api.info().revision(source.revision.clone()).send().map_err(hub_error)?;
        let commit = info.sha.filter(|sha| !sha.is_empty()).ok_or_else(|| FetchError::Http {
            url: format!("{}/api/models/{}", settings.endpoint, source.repo),
            message: "the answer names no commit".to_string(),
        })?;
        let client = |policy| {
            Client::builder()
                .user_agent(USER_AGENT)
                .connect_timeout(PATIENCE)
                .timeout(PATIENCE)
                .redirect(policy)
                .build()
                .map_err(|error| FetchError::Http { url: settings.endpoint.clone(), message: chain(&error) })
        };
        Ok(Self {
            settings,
            source,
            commit,
            api,
            client: client(redirect::Policy::limited(MAX_REDIRECTS))?,
            unredirected: client(redirect::Policy::none())?,
        })
    }

    /// The files that the source asks for, with what the hub publishes of each.
    pub(super) fn files(&self) -> Result<Vec<HubFile>, FetchError> {
        let tree = self.api.list_tree().revision(self.commit.clone()).recursive(true).send();
        let tree = tree.map_err(|error| api_error(&self.settings.endpoint, self.source, error))?;
        let mut listed = Vec::new();
        for entry in tree {
            if let RepoTreeEntry::File { oid, size, path, lfs, .. } = entry {
                listed.push((path, size, oid, lfs));
            }
        }
        let paths: Vec<String> = listed.iter().map(|(path, ..)| path.clone()).collect();
        let chosen = select(self.source, &self.commit, &paths)?;
        let mut files = Vec::new();
        for (path, size, oid, lfs) in listed.into_iter().filter(|(path, ..)| chosen.contains(path)) {
            check_relative("path", &path)
                .map_err(|_| FetchError::UnsafePath { repo: self.source.repo.clone(), path: path.clone() })?;
            let expected = match lfs {
                None => Expected { bytes: Some(size), checksum: Some(Checksum::HubGitId(oid)) },
                Some(lfs) => {
                    let sha256 = match lfs.sha256 {
                        Some(sha256) => Some(sha256),
                        None => self.linked_sha256(&path)?,
                    };
                    Expected {
                        bytes: Some(lfs.size.unwrap_or(size)),
                        checksum: sha256.map(Checksum::HubSha256),
                    }
                }
            };
            files.push(HubFile { path, expected });
        }
        Ok(files)
    }

    /// The sha256 that the hub publishes of a large file, from the header of the redirect to its storage.
    fn linked_sha256(&self, path: &str) -> Result<Option<String>, FetchError> {
        let mut url = self.url(path)?;
        for _ in 0..MAX_REDIRECTS {
            let response = self
                .authorised(self.unredirected.head(url.clone()))
                .send()
                .map_err(|error| FetchError::Http { url: url.to_string(), message: chain(&error) })?;
            // A renamed repository answers with a relative redirect, which has no checksum yet.
            let relative = header(response.headers(), LOCATION.as_str()).filter(|to| {
                response.status().is_redirection() && to.starts_with('/') && !to.starts_with("//")
            });
            if let Some(next) = relative.and_then(|to| url.join(to).ok()) {
                url = next;
                continue;
            }
            if !response.status().is_redirection() {
                self.refuse(&response, &url, path)?;
            }
            let etag =
                header(response.headers(), "x-linked-etag").or(header(response.headers(), ETAG.as_str()));
            let sum = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase());
            return Ok(sum.filter(|sum| sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit())));
        }
        Err(FetchError::Http {
            url: url.to_string(),
            message: format!("more than {MAX_REDIRECTS} redirects"),
        })
    }

    /// Downloads a file to `destination`, going on from an earlier try, and checks it.
    pub(super) fn download(
        &self,
        file: &HubFile,
        destination: &Path,
        progress: &mut dyn FetchProgress,
    ) -> Result<LockedFile, FetchError> {
        let url = self.url(&file.path)?;
        let mut part = PartFile::open(destination, &file.path, &self.commit, file.expected.clone())?;
        progress.begin(&file.path, file.expected.bytes, part.length());
        let result = self.download_all(&url, &file.path, &mut part, progress);
        progress.finish();
        result?;
        part.finish()
    }

    fn download_all(
        &self,
        url: &Url,
        path: &str,
        part: &mut PartFile,
        progress: &mut dyn FetchProgress,
    ) -> Result<(), FetchError> {
        let mut idle = 0;
        while !part.is_complete() {
            let before = part.length();
            let message = match self.download_on(url, path, part, progress)? {
                Try::Done => return Ok(()),
                Try::BrokenOff(message) => message,
            };
            idle = if part.length() > before { 1 } else { idle + 1 };
            if idle >= self.settings.attempts {
                return Err(FetchError::Interrupted {
                    url: url.to_string(),
                    received: part.length(),
                    expected: part.expected().bytes,
                    attempts: idle,
                    message,
                    partial: part.path().to_path_buf(),
                });
            }
            tracing::debug!(%url, received = part.length(), message, "download broken off, going on");
            std::thread::sleep(self.settings.retry_delay * 2u32.pow(idle.min(6) - 1));
        }
        Ok(())
    }

    fn download_on(
        &self,
        url: &Url,
        path: &str,
        part: &mut PartFile,
        progress: &mut dyn FetchProgress,
    ) -> Result<Try, FetchError> {
        let mut request = self.authorised(self.client.get(url.clone()));
        if part.length() > 0 {
            request = request.header(RANGE, format!("bytes={}-", part.length()));
        }
        let mut response = match request.send() {
            Ok(response) => response,
            Err(error) => return Ok(Try::BrokenOff(chain(&error))),
        };
        let status = response.status();
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            return Ok(Try::BrokenOff(format!("HTTP {status}")));
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE && part.length() > 0 {
            part.restart()?;
            return Ok(Try::BrokenOff("the server refuses to go on, starting again".to_string()));
        }
        self.refuse(&response, url, path)?;
        if part.length() > 0 && !goes_on_from(&response, part.length()) {
            // The server ignores ranges: it sends the whole file again.
            part.restart()?;
        }
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match response.read(&mut buffer) {
                Ok(0) if part.expected().bytes.is_some_and(|bytes| part.length() < bytes) => {
                    return Ok(Try::BrokenOff("the connection ended early".to_string()));
                }
                Ok(0) => return Ok(Try::Done),
                Ok(count) if part.append(&buffer[..count])? => progress.advance(count as u64),
                Ok(_) => {
                    let bytes = part.expected().bytes.unwrap_or(0);
                    let message = format!("the server sends more than the {bytes} bytes that it announced");
                    return Err(FetchError::Http { url: url.to_string(), message });
                }
                Err(error) => return Ok(Try::BrokenOff(chain(&error))),
            }
        }
    }

    fn authorised(&self, request: reqwest::blocking::RequestBuilder) -> reqwest::blocking::RequestBuilder {
        match &self.settings.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn refuse(&self, response: &Response, url: &Url, path: &str) -> Result<(), FetchError> {
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let message = header(response.headers(), "x-error-message").unwrap_or_default().to_string();
        Err(match status.as_u16() {
            code @ (401 | 403) => FetchError::Gated {
                endpoint: self.settings.endpoint.clone(),
                repo: self.source.repo.clone(),
                status: code,
                message,
            },
            404 => FetchError::NoSuchFile {
                repo: self.source.repo.clone(),
                commit: self.commit.clone(),
                pattern: path.to_string(),
            },
            _ => FetchError::Http { url: url.to_string(), message: format!("HTTP {status} {message}") },
        })
    }

    fn url(&self, path: &str) -> Result<Url, FetchError> {
        let endpoint = &self.settings.endpoint;
        let wrong = |message: String| FetchError::Http { url: endpoint.clone(), message };
        let mut url = Url::parse(endpoint).map_err(|error| wrong(error.to_string()))?;
        url.path_segments_mut()
            .map_err(|()| wrong("no address of a server".to_string()))?
            .pop_if_empty()
            .extend(self.source.repo.split('/'))
            .extend(["resolve", &self.commit])
            .extend(path.split('/'));
        Ok(url)
    }
}

/// Whether an answer to a ranged request begins where asked: status 206, and `Content-Range: bytes <start>-...`.
fn goes_on_from(response: &Response, start: u64) -> bool {
    let range = header(response.headers(), CONTENT_RANGE.as_str());
    let first =
        range.and_then(|range| range.strip_prefix("bytes ")).and_then(|range| range.split('-').next());
    response.status() == StatusCode::PARTIAL_CONTENT
        && first.and_then(|first| first.parse().ok()) == Some(start)
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// reqwest's own message is only "error sending request"; the cause says why.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn api_error(endpoint: &str, source: &HubSource, error: HFError) -> FetchError {
    let (endpoint, repo) = (endpoint.to_string(), source.repo.clone());
    // The hub answers 401 for a repository that does not exist, lest one learn which private ones do.
    let is_unknown = |code: &Option<String>| code.as_deref() == Some("RepoNotFound");
    let message = |text: &Option<String>| text.clone().unwrap_or_else(|| "no reason given".to_string());
    match error {
        HFError::AuthRequired { context } | HFError::Forbidden { context }
            if !is_unknown(&context.error_code) =>
        {
            let status = context.status.as_u16();
            FetchError::Gated { endpoint, repo, status, message: message(&context.server_message) }
        }
        HFError::AuthRequired { context } | HFError::Forbidden { context } => {
            FetchError::RepoNotFound { endpoint, repo, message: message(&context.server_message) }
        }
        HFError::RevisionNotFound { context: Some(context), .. } if is_unknown(&context.error_code) => {
            FetchError::RepoNotFound { endpoint, repo, message: message(&context.server_message) }
        }
        HFError::RevisionNotFound { revision, .. } => {
            FetchError::RevisionNotFound { endpoint, repo, revision }
        }
        HFError::RepoNotFound { context, .. } => {
            let text = context.and_then(|context| context.server_message);
            FetchError::RepoNotFound { endpoint, repo, message: message(&text) }
        }
        error => FetchError::Hub { endpoint, repo, source: Box::new(error) },
    }
}

//! Where models lie and how they may be fetched, resolved once from the environment.
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Folders, hub, token and switches. [`FetchSettings::from_env`] reads the documented variables.
#[derive(Clone)]
pub struct FetchSettings {
    /// `${LONGWICK_CACHE:-$HOME/.cache/longwick}`.
    pub cache_root: PathBuf,
    /// The Hugging Face cache: `HF_HUB_CACHE`, else `HF_HOME/hub`, else `~/.cache/huggingface/hub`.
    pub hf_cache: PathBuf,
    /// The hub's address, without a slash at its end: `HF_ENDPOINT`.
    pub endpoint: String,
    /// The hub's token: `HF_TOKEN`, else the file `HF_TOKEN_PATH`, else `HF_HOME/token`.
    pub token: Option<String>,
    /// Set when all downloads are refused: the variable that says so.
    pub offline: Option<&'static str>,
    /// Set when downloads from the hub are refused: the variable that says so.
    pub hub_offline: Option<&'static str>,
    /// How pip is called, in the order tried: `LONGWICK_PIP` alone, or `pip`, `pip3`, `python3 -m pip`.
    pub pip: Vec<Vec<OsString>>,
    /// `PATH` for pip; `None` leaves it as it is.
    pub search_path: Option<OsString>,
    /// Tries without a byte of progress before a download is given up.
    pub attempts: u32,
    /// Wait before the second try; doubles with each.
    pub retry_delay: Duration,
}

impl FetchSettings {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
        let switched = |variable: &'static str| switched_on(std::env::var_os(variable)).then_some(variable);
        let pip = match present("LONGWICK_PIP") {
            Some(pip) => vec![vec![pip]],
            None => vec![
                vec!["pip".into()],
                vec!["pip3".into()],
                vec!["python3".into(), "-m".into(), "pip".into()],
            ],
        };
        Self {
            cache_root: present("LONGWICK_CACHE").map_or_else(|| home.join(".cache/longwick"), PathBuf::from),
            hf_cache: hf_hub::resolve_cache_dir(),
            endpoint: endpoint(std::env::var("HF_ENDPOINT").ok()),
            token: token(&hf_hub::hf_home()),
            offline: switched("LONGWICK_OFFLINE"),
            hub_offline: switched("HF_HUB_OFFLINE"),
            pip,
            search_path: None,
            attempts: 5,
            retry_delay: Duration::from_millis(500),
        }
    }
}

fn present(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

fn endpoint(variable: Option<String>) -> String {
    let endpoint = variable.filter(|value| !value.is_empty()).unwrap_or_else(|| DEFAULT_ENDPOINT.to_string());
    endpoint.trim_end_matches('/').to_string()
}

/// The values that `huggingface_hub` counts as true.
fn switched_on(value: Option<OsString>) -> bool {
    let value = value.map(|value| value.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    matches!(value.as_str(), "1" | "true" | "yes" | "on")
}

/// The token by hf-hub's rules, resolved here because its client does not hand it out.
fn token(hf_home: &Path) -> Option<String> {
    if present("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some() {
        return None;
    }
    let from_file = |path: PathBuf| std::fs::read_to_string(path).ok();
    let candidates = [
        std::env::var("HF_TOKEN").ok(),
        present("HF_TOKEN_PATH").and_then(|path| from_file(PathBuf::from(path))),
        from_file(hf_home.join("token")),
    ];
    candidates.into_iter().flatten().map(|token| token.trim().to_string()).find(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_endpoint_read_as_the_hub_reads_them() {
        for (value, on) in
            [("1", true), ("TRUE", true), ("on", true), ("0", false), ("", false), ("no", false)]
        {
            assert_eq!(switched_on(Some(value.into())), on, "{value:?}");
        }
        assert!(!switched_on(None));
        assert_eq!(endpoint(None), DEFAULT_ENDPOINT);
        assert_eq!(endpoint(Some(String::new())), DEFAULT_ENDPOINT);
        assert_eq!(endpoint(Some("http://mirror:80/".to_string())), "http://mirror:80");
    }
}

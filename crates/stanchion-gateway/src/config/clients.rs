//! Who may come in, and what for.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use stanchion::edge::is_name;

use super::{Client, ClientLimits, check::Checker, file, value::Spanned};

/// Why a name cannot be an owner's.
pub(super) const NO_OWNER: &str =
    "an owner is a name of 1 to 256 bytes, without control characters or spaces around it";

impl Checker<'_> {
    pub(super) fn clients(&mut self, file: &file::File) -> Vec<Client> {
        if let Some(set) =
            file.server.identity_headers.as_ref().filter(|set| *set.get_ref() && !file.clients.is_empty())
        {
            self.warn(
                set.span(),
                "counts only where no client has a key: set it for each client that may say whose its requests are",
            );
        }
        let mut known: HashMap<[u8; 32], &str> = HashMap::new();
        let mut clients = Vec::new();
        for (name, spanned) in &file.clients {
            let client = spanned.get_ref();
            let key = self.client_key(spanned);
            let believed = client.identity_headers.unwrap_or(false);
            self.client_names(name, spanned, believed);
            let Some(key) = key else { continue };
            if let Some(other) = known.insert(key, name) {
                self.complain(spanned.span(), format!("has the key of {other:?}: each client needs its own"));
            }
            let owner = client.owner.as_ref().map(|owner| owner.get_ref().clone());
            clients.push(Client {
                name: name.clone(),
                key,
                // Who may not say whose requests they are has a share of its own, and not one with all the others.
                owner: owner.or_else(|| (!believed).then(|| name.clone())),
                class: client.class,
                identity_headers: believed,
                models: client.models.as_ref().map(|models| models.get_ref().clone()),
                limits: ClientLimits {
                    requests_per_minute: client.requests_per_minute,
                    concurrency: client.concurrency,
                },
            });
        }
        clients
    }

    /// The SHA-256 of a client's key.
    fn client_key(&mut self, spanned: &Spanned<file::Client>) -> Option<[u8; 32]> {
        let client = spanned.get_ref();
        let ways = [&client.key, &client.key_env, &client.key_file];
        let plain = ways.into_iter().flatten().next();
        match (&client.key_sha256, plain) {
            (Some(digest), Some(_)) => {
                self.complain(digest.span(), "the key is given twice: keep one of the four ways");
                None
            }
            (Some(digest), None) => self.digest(digest),
            (None, Some(_)) => {
                let secret = self.secret(client.key.as_ref(), client.key_env.as_ref(), client.key_file.as_ref());
                secret.map(|secret| Sha256::digest(secret.expose().as_bytes()).into())
            }
            (None, None) => {
                self.complain(spanned.span(), "a client needs a key: set key_sha256, key_env or key_file");
                None
            }
        }
    }

    fn client_names(&mut self, name: &str, spanned: &Spanned<file::Client>, believed: bool) {
        let client = spanned.get_ref();
        match &client.owner {
            Some(owner) if !is_name(owner.get_ref()) => self.complain(owner.span(), NO_OWNER),
            None if !believed && !is_name(name) => self.complain(
                spanned.span(),
                format!("the client's name is its owner's unless `owner` is set: {NO_OWNER}"),
            ),
            _ => {}
        }
        if let Some(models) = &client.models
            && (models.get_ref().is_empty() || models.get_ref().iter().any(String::is_empty))
        {
            self.complain(models.span(), "names at least one model, such as [\"gpt-*\"]; leave it out for all");
        }
    }
}

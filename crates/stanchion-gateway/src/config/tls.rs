//! Certificates and keys, as the files that the configuration names hold them.

use stanchion::upstream::{ClientTls, InvalidTls as InvalidClientTls};

use super::{check::Checker, file, value::Spanned};
use crate::server::{InvalidTls, ServerTls};

impl Checker<'_> {
    /// What a listener presents.
    pub(super) fn server_tls(&mut self, tls: &file::ServerTls) -> Option<ServerTls> {
        let certificate = self.pem(&tls.cert)?;
        let key = self.private(&tls.key)?;
        let client_ca = match &tls.client_ca {
            None => None,
            Some(path) => Some(self.pem(path)?),
        };
        ServerTls::new(&certificate, &key, client_ca.as_deref())
            .map_err(|error| {
                let wrong = match error {
                    InvalidTls::Certificate => &tls.cert,
                    InvalidTls::Key | InvalidTls::Mismatch => &tls.key,
                    InvalidTls::ClientCa => tls.client_ca.as_ref().unwrap_or(&tls.cert),
                };
                self.complain(wrong.span(), error.to_string());
            })
            .ok()
    }

    /// How a provider is spoken to, where it is another way than that of all.
    pub(super) fn provider_tls(&mut self, provider: &file::Provider) -> Option<ClientTls> {
        let spanned = provider.tls.as_ref()?;
        let tls = spanned.get_ref();
        if !provider.base_url.get_ref().to_ascii_lowercase().starts_with("https:") {
            self.complain(spanned.span(), "the base URL is not https: there is no TLS to set up");
        }
        if tls.ca.is_none() && tls.cert.is_none() && tls.key.is_none() {
            self.complain(spanned.span(), "there is nothing in it: set ca, or cert and key");
        }
        let mut client = ClientTls::new();
        if let Some(path) = &tls.ca {
            let pem = self.pem(path)?;
            client = client
                .with_roots(pem.as_bytes())
                .map_err(|error| self.complain(path.span(), error.to_string()))
                .ok()?;
        }
        match (&tls.cert, &tls.key) {
            (None, None) => {}
            (Some(cert), Some(key)) => {
                let (certificate, private) = (self.pem(cert)?, self.private(key)?);
                client = client
                    .with_identity(certificate.as_bytes(), private.as_bytes())
                    .map_err(|error| {
                        let wrong = if error == InvalidClientTls::Certificate { cert } else { key };
                        self.complain(wrong.span(), error.to_string());
                    })
                    .ok()?;
            }
            (Some(alone), None) | (None, Some(alone)) => {
                self.complain(alone.span(), "a certificate and its key go together: set cert and key");
            }
        }
        Some(client)
    }

    fn pem(&mut self, path: &Spanned<String>) -> Option<String> {
        match self.sources.read(path.get_ref()) {
            Ok(text) => Some(text),
            Err(error) => {
                self.complain(path.span(), format!("the file cannot be read: {error}"));
                None
            }
        }
    }

    /// The same for what must be kept from others.
    fn private(&mut self, path: &Spanned<String>) -> Option<String> {
        let text = self.pem(path)?;
        self.warn_if_open(path);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn complaints(server: &str, url: &str, provider: &str) -> Vec<String> {
        let text = format!(
            "[server]\n{server}\n[providers.p]\ndialect = \"openai\"\nbase_url = \"{url}\"\n{provider}\n\
            [models.m]\ncandidates = [{{ provider = \"p\" }}]\n"
        );
        let told = Config::parse("f", &text, &|_| None).map_err(|error| error.to_string()).err().unwrap_or_default();
        told.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_at_its_key() {
        let file = std::env::temp_dir().join(format!("stanchion-{}-no.pem", std::process::id()));
        std::fs::write(&file, "hunter2").unwrap();
        let made = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
        let cert = std::env::temp_dir().join(format!("stanchion-{}-cert.pem", std::process::id()));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        for (server, url, provider, key) in [
            (format!("tls = {{ cert = {file:?}, key = {file:?} }}"), "https://x", String::new(), "server.tls.cert"),
            (format!("tls = {{ cert = {cert:?}, key = {file:?} }}"), "https://x", String::new(), "server.tls.key"),
            ("tls = { cert = \"/no\", key = \"/no\" }".to_owned(), "https://x", String::new(), "server.tls.cert"),
            (String::new(), "http://x", format!("tls = {{ ca = {cert:?} }}"), "providers.p.tls"),
            (String::new(), "https://x", "tls = {}".to_owned(), "providers.p.tls"),
            (String::new(), "https://x", format!("tls = {{ ca = {file:?} }}"), "providers.p.tls.ca"),
            (String::new(), "https://x", format!("tls = {{ cert = {cert:?} }}"), "providers.p.tls.cert"),
            (String::new(), "https://x", format!("tls = {{ cert = {cert:?}, key = {file:?} }}"), "providers.p.tls.key"),
        ] {
            let told = complaints(&server, url, &provider);
            let [line] = &told[..] else { panic!("{key}: {told:?}") };
            assert!(line.contains(&format!("{key}: ")) && !line.contains("hunter2"), "{key}: {line}");
        }
        assert!(complaints("", "https://x", &format!("tls = {{ ca = {cert:?} }}")).is_empty());
        for file in [file, cert] {
            let _ = std::fs::remove_file(file);
        }
    }
}

//! The admin listener.

use sha2::{Digest, Sha256};

use super::{check::Checker, file, value::Spanned};
use crate::{admin::AdminSettings, server::ServerTls};

impl Checker<'_> {
    pub(super) fn admin(&mut self, admin: &file::Admin) -> AdminSettings {
        let listen = match &admin.listen {
            None => AdminSettings::LISTEN,
            Some(text) => self.address(text).unwrap_or(AdminSettings::LISTEN),
        };
        let key = match (&admin.key_sha256, admin.key_env.as_ref().or(admin.key_file.as_ref())) {
            (Some(digest), Some(_)) => {
                self.complain(digest.span(), "the key is given twice: keep one of the three ways");
                None
            }
            (Some(digest), None) => self.digest(digest),
            (None, _) => {
                let secret = self.secret(None, admin.key_env.as_ref(), admin.key_file.as_ref());
                secret.map(|secret| Sha256::digest(secret.expose().as_bytes()).into())
            }
        };
        let is_keyed = [&admin.key_env, &admin.key_file, &admin.key_sha256].into_iter().any(Option::is_some);
        if let Some(text) = admin.listen.as_ref().filter(|_| !listen.ip().is_loopback() && !is_keyed) {
            self.complain(
                text.span(),
                "other machines reach this address, and no key is set: add key_env, key_file or key_sha256, or listen on 127.0.0.1",
            );
        }
        let tls = admin.tls.as_ref().and_then(|tls| self.server_tls(tls)).map(ServerTls::without_http2);
        AdminSettings { listen, key, tls }
    }

    pub(super) fn digest(&mut self, text: &Spanned<String>) -> Option<[u8; 32]> {
        let digest = decode(text.get_ref());
        if digest == Some(Sha256::digest(b"").into()) {
            self.complain(text.span(), "this is the SHA-256 of nothing: the key was empty where it was made");
            return None;
        }
        if digest.is_none() {
            self.complain(
                text.span(),
                "no SHA-256: write 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them",
            );
        }
        digest
    }
}

fn decode(text: &str) -> Option<[u8; 32]> {
    let text = text.trim().as_bytes();
    if text.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, digits) in digest.iter_mut().zip(text.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_in_either_case_and_nothing_else() {
        let digest: [u8; 32] = Sha256::digest(b"secret").into();
        let text = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(decode(text), Some(digest));
        assert_eq!(decode(&text.to_uppercase()), Some(digest));
        for wrong in ["", "secret", &text[1..], &text.replace('2', "g"), &format!("{text}00")] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}

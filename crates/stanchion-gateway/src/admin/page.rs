//! The status page: one document with everything in it, put together once.

use std::sync::LazyLock;

use bytes::Bytes;
use http::HeaderValue;
use sha2::{Digest, Sha256};

const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/format.js"),
    include_str!("page/figures.js"),
    include_str!("page/feed.js"),
    include_str!("page/view.js"),
    include_str!("page/actions.js"),
    include_str!("page/main.js"),
);

/// The page and the policy that it is served with.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) html: Bytes,
    /// Nothing runs and nothing styles but what is in the page, by its hash; nothing is fetched but from here.
    pub(super) policy: HeaderValue,
}

pub(super) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let html = MARKUP.replace("/*{style}*/", STYLE).replace("/*{script}*/", SCRIPT);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        hash(SCRIPT),
        hash(STYLE),
    );
    Page { html: html.into(), policy: HeaderValue::try_from(policy).expect("hashes are plain text") }
});

/// As a content security policy names an inline part.
fn hash(part: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha256::digest(part.as_bytes());
    let mut text = String::from("sha256-");
    for three in digest.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            text.push(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63].into());
        }
    }
    text + "="
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_as_browsers_compute_it() {
        // The example of the specification of content security policies.
        assert_eq!(hash("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_reads_no_data_as_markup() {
        let html = std::str::from_utf8(&PAGE.html).unwrap();
        assert!(html.contains(STYLE) && html.contains(SCRIPT) && !html.contains("*{"));
        // A namespace is no address that anybody asks.
        let addresses = html.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http://", "https://", "@import", "url("] {
            assert!(!addresses.contains(foreign), "{foreign}");
        }
        for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "style=\""]
        {
            assert!(!html.contains(sink), "{sink}");
        }
        assert_eq!(html.matches("<script").count(), 1);
    }
}

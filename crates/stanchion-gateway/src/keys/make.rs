use sha2::{Digest, Sha256};

/// What every key that is made here begins with, so that scanners for leaked secrets can find it.
const PREFIX: &str = "sk-stanchion-";
/// Letters and digits that need no escape anywhere.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The SHA-256 of a key, as `key_sha256` has it.
pub fn hash_of(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(digit).collect()
}

fn digit(value: u8) -> Option<char> {
    char::from_digit(value.into(), 16)
}

/// A new key: 258 bits of the operating system's randomness.
///
/// # Errors
///
/// If the operating system has none to give.
pub fn make() -> Result<String, getrandom::Error> {
    let mut random = [0; 43];
    getrandom::fill(&mut random)?;
    let letters = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 63)]));
    Ok(PREFIX.chars().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_sha256sum_and_no_two_keys_are_the_same() {
        let expected = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(hash_of("secret"), expected);
        let (one, other) = (make().unwrap(), make().unwrap());
        assert!(one.starts_with(PREFIX) && one.len() == PREFIX.len() + 43 && one != other);
        assert!(http::HeaderValue::from_str(&one).is_ok());
    }
}

//! Numbers by what they are worth, not by how they are written.

/// A number in one spelling: sign, digits without outer zeros, exponent of ten. `None` if it is none, or beyond reason.
pub(super) fn plain_number(number: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let mut digits = String::with_capacity(mantissa.len());
    digits.extend([whole, fraction]);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = digits.trim_end_matches('0').len();
    exponent = exponent.checked_add(i64::try_from(digits.len() - kept).ok()?)?;
    digits.truncate(kept);
    let leading = digits.len() - digits.trim_start_matches('0').len();
    digits.drain(..leading);
    Some(if digits.is_empty() { (false, digits, 0) } else { (negative, digits, exponent) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_are_worth() {
        let same = |a, b| assert_eq!(plain_number(a), plain_number(b), "{a} and {b}");
        for (a, b) in
            [("1", "1.0"), ("1", "10e-1"), ("100", "1E2"), ("-0.50", "-5e-1"), ("0", "-0.00e9"), ("1e+2", "100")]
        {
            same(a, b);
        }
        // More digits than a float keeps.
        same("9007199254740993", "9007199254740993.0");
        for (a, b) in
            [("1", "-1"), ("1", "10"), ("9007199254740992", "9007199254740993"), ("0.1", "0.10000000000000001")]
        {
            assert_ne!(plain_number(a), plain_number(b), "{a} and {b}");
        }
        for odd in ["", "-", "1e", "1.2.3", "1e99999999999999999999", "+1", "1-2"] {
            assert_eq!(plain_number(odd), None, "{odd}");
        }
    }
}

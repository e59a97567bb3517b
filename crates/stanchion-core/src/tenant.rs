use std::{fmt, sync::Arc};

/// Whom the application serves with a request, as it knows itself: by the key that was presented, and not by what the
/// client says. Lives in the request's extensions.
///
/// Two tenants may give the same name to a session, and neither is to learn of the other's. It is compared, and shown
/// nowhere: not in `Debug` either.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The one of this name. No other has it.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Tenant;

    #[test]
    fn it_is_compared_and_not_shown() {
        let alice = Tenant::new("alice");
        assert!(alice == Tenant::new("alice") && alice != Tenant::new("bob") && alice.name() == "alice");
        assert_eq!(format!("{alice:?}"), "Tenant { .. }");
    }
}

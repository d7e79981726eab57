//! Tokens: one for each session, made of one secret.

use std::fmt;

use uuid::Uuid;
use wink::session::SessionId;

/// The secret that a server's tokens are made of. Whoever has it has all of them; whoever has a token has that session.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// A fresh one.
    pub fn fresh() -> Self {
        let mut key = [0; 32];
        for (half, random) in key.chunks_exact_mut(16).zip([Uuid::new_v4(), Uuid::new_v4()]) {
            half.copy_from_slice(random.as_bytes());
        }
        Self(key)
    }

    /// The one that was kept.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// To be kept where nobody else can read it.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The token of a session.
    pub fn token(&self, session: &SessionId) -> String {
        self.hash(session).to_hex().to_string()
    }

    /// Whether this is the token of the session. Takes as long whatever is wrong with it.
    pub fn accepts(&self, session: &SessionId, token: &str) -> bool {
        // Hashes are compared in constant time.
        blake3::Hash::from_hex(token).is_ok_and(|token| token == self.hash(session))
    }

    fn hash(&self, session: &SessionId) -> blake3::Hash {
        blake3::keyed_hash(&self.0, session.as_str().as_bytes())
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_session_only() {
        let key = TokenKey::fresh();
        let (one, other) = (SessionId::from("one"), SessionId::from("other"));
        let token = key.token(&one);
        assert!(key.accepts(&one, &token));
        assert!(!key.accepts(&other, &token));
        assert!(!TokenKey::fresh().accepts(&one, &token));
        assert!(!key.accepts(&one, &token[1..]));
        assert!(!key.accepts(&one, ""));
        assert_eq!(TokenKey::from_bytes(*key.as_bytes()).token(&one), token);
        assert_eq!(format!("{key:?}"), "TokenKey(..)");
    }
}

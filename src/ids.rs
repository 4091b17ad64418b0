//! Ids: one newtype a thing, written `thg_` and 32 hexadecimal digits.

use uuid::Uuid;

/// A text is no id of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this kind")]
pub struct IdError;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new one. Ids made later sort later (`UUIDv7`).
            #[must_use]
            pub fn new() -> Self {
                #[expect(clippy::disallowed_methods, reason = "this is the one place")]
                Self(Uuid::now_v7())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix(concat!($prefix, "_")).ok_or(IdError)?;
                let is_canonical = digits.len() == 32
                    && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
                if !is_canonical {
                    return Err(IdError);
                }
                Uuid::try_parse(digits).map(Self).map_err(|_| IdError)
            }
        }
    };
}

id_type!(
    /// Something a person must decide.
    RequestId,
    "req"
);
id_type!(
    /// One card at one place.
    DeliveryId,
    "dlv"
);
id_type!(
    /// Words to a person.
    NoticeId,
    "ntc"
);
id_type!(
    /// A person known to the gateway.
    PrincipalId,
    "prn"
);
id_type!(
    /// A person's account on a channel.
    BindingId,
    "bnd"
);
id_type!(
    /// Whoever asks.
    AgentId,
    "agt"
);
id_type!(
    /// Something that came in.
    InboxId,
    "inb"
);
id_type!(
    /// Something that is owed.
    JobId,
    "job"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_itself_and_nothing_else_reads_as_one() {
        let id = RequestId::new();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().len(), 36);

        let upper = id.to_string().to_uppercase();
        let dashed = "req_0193c0de-0000-7000-8000-000000000000";
        for bad in ["", "req_", "dlv_00000000000000000000000000000000", &upper, dashed] {
            assert_eq!(bad.parse::<RequestId>(), Err(IdError), "{bad}");
        }
    }

    #[test]
    fn later_ids_sort_later() {
        let ids: Vec<_> = (0..100).map(|_| RequestId::new().to_string()).collect();
        assert!(ids.is_sorted());
    }
}

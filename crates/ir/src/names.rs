//! Enums whose values have names.

/// Defines an enum, the table of all its values, and their names in the textual IR.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $enum:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[$doc])* $value,)*
        }

        impl $enum {
            /// Every value, in order.
            pub const ALL: [$enum; [$($name),*].len()] = [$($enum::$value),*];

            /// The name in the textual IR.
            pub fn name(self) -> &'static str {
                match self {
                    $($enum::$value => $name,)*
                }
            }
        }
    };
}

pub(crate) use named;

//! Which partition a key belongs to, as another implementation says.
//!
//! The hashes were computed by `mmh3` 5 for Python (MurmurHash3, x86, 32 bits, seed 0, over the key's UTF-8), so
//! that the core and the SQL of every migration are held to the same numbers.

/// Keys, their MurmurHash3 and the partition, which is its lowest byte.
///
/// Among them are all lengths up to 20 bytes (tails of 0 to 3 bytes), characters of 1 to 4 bytes, bytes with the
/// highest bit set in every place of a block, and the longest key that an event may have (128 characters).
pub const VECTORS: &[(&str, u32, u8)] = &[
    ("", 0x00000000, 0),
    ("a", 0x3c2569b2, 178),
    ("ab", 0x9bbfd75f, 95),
    ("abc", 0xb3dd93fa, 250),
    ("abcd", 0x43ed676a, 106),
    ("abcde", 0xe89b9af6, 246),
    ("abcdef", 0x6181c085, 133),
    ("abcdefg", 0x883c9b06, 6),
    ("abcdefgh", 0x49ddccc4, 196),
    ("abcdefghi", 0x421406f0, 240),
    ("abcdefghij", 0x88927791, 145),
    ("abcdefghijk", 0x5f3b25df, 223),
    ("abcdefghijkl", 0xa36f3d27, 39),
    ("abcdefghijklm", 0xf212161b, 27),
    ("abcdefghijklmn", 0xf8526df0, 240),
    ("abcdefghijklmno", 0x9d09f7d2, 210),
    ("abcdefghijklmnop", 0xe76291ed, 237),
    ("abcdefghijklmnopq", 0xb6655e4a, 74),
    ("abcdefghijklmnopqr", 0xc219a894, 148),
    ("abcdefghijklmnopqrs", 0x85bf5bc1, 193),
    ("abcdefghijklmnopqrst", 0xbe1c719a, 154),
    ("order-1", 0xf5725621, 33),
    ("order-2", 0x41a93b9f, 159),
    ("order-17", 0x03c287c0, 192),
    ("Order-17", 0x41017de7, 231),
    ("order-17 ", 0xf0f5902c, 44),
    (" ", 0x7ef49b98, 152),
    ("  ", 0x651de1d8, 216),
    ("0", 0xd271c07f, 127),
    ("\u{7f}\u{7f}\u{7f}\u{7f}", 0xdb7c4cd4, 212),
    ("é", 0x10110787, 135),
    ("ä", 0x7e32d1d4, 212),
    ("äöüß", 0x354cd15a, 90),
    ("Müller", 0xd71eace2, 226),
    ("straße-9", 0xb897d86b, 107),
    ("e\u{301}", 0x9f32a268, 104),
    ("ÿ", 0xb189590e, 14),
    ("ÿÿ", 0x28021f10, 16),
    ("日本語", 0xa5a47297, 151),
    ("注文-17", 0x6b059f57, 87),
    ("😀", 0xbeb42efa, 250),
    ("😀😀", 0x9ed9681c, 28),
    ("a😀", 0xe325d8b4, 180),
    ("ab😀c", 0x66061377, 119),
    ("👩\u{200d}👩\u{200d}👧", 0xcab3418c, 140),
    ("\u{10ffff}", 0x2bc506da, 218),
    ("01K4B1Z0QX0V7J8M2C9D3E5F6G", 0x1119420d, 13),
    ("6f1c9d2e-8a53-4c1f-9b7e-0d2a4c6e8f10", 0x77f24ad2, 210),
    ("tenant:acme/order:17", 0x8d6b8656, 86),
    ("'; DROP TABLE outbox_event; --", 0x8dd327c1, 193),
    ("back\\slash", 0xaa5ce9ed, 237),
    ("100%_", 0xcb3327c6, 198),
    (LONG_X_127, 0xd0c00d5f, 95),
    (LONG_X_128, 0x271e1da5, 165),
    (LONG_U_UMLAUT_128, 0x07827cba, 186),
    (LONG_GRIN_128, 0xc0b1d265, 101),
];

const LONG_X_127: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

const LONG_X_128: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

const LONG_U_UMLAUT_128: &str = "üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü\
    üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü";

const LONG_GRIN_128: &str = "😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀\
    😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀";

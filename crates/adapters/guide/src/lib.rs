#![doc = include_str!("../../../../docs/guide/your-own-transaction.md")]

//! The canonical INSERT as a query of diesel's.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use pillarbox::Event;
use pillarbox_sql::canonical::{Database, Insert, Piece, Value, values};

/// A backend of diesel's on which an outbox can be: `Pg` and `Mysql`.
pub trait Dialect: Backend + sealed::Bind {
    /// The database behind it.
    const DATABASE: Database;
}

pub(crate) mod sealed {
    use super::{AstPass, Backend, QueryResult, Value};

    /// Knows how each kind of value is bound, which in generic code would be a page of bounds.
    pub trait Bind: Backend {
        fn bind<'b>(value: &'b Value<'_>, out: AstPass<'_, 'b, Self>) -> QueryResult<()>;
    }
}

macro_rules! dialect {
    ($backend:ty, $database:ident) => {
        impl $crate::rows::Dialect for $backend {
            const DATABASE: pillarbox_sql::canonical::Database =
                pillarbox_sql::canonical::Database::$database;
        }

        impl $crate::rows::sealed::Bind for $backend {
            fn bind<'b>(
                value: &'b pillarbox_sql::canonical::Value<'_>,
                mut out: diesel::query_builder::AstPass<'_, 'b, Self>,
            ) -> diesel::QueryResult<()> {
                use diesel::sql_types::{BigInt, Binary, Nullable, Text};
                use pillarbox_sql::canonical::Value;

                match value {
                    Value::Text(text) => out.push_bind_param::<Nullable<Text>, _>(text),
                    Value::Bytes(bytes) => out.push_bind_param::<Nullable<Binary>, _>(bytes),
                    Value::Number(number) => out.push_bind_param::<Nullable<BigInt>, _>(number),
                }
            }
        }
    };
}
pub(crate) use dialect;

/// One INSERT for several events.
pub(crate) struct Rows<'a> {
    insert: &'a Insert,
    events: Vec<Vec<Value<'a>>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(insert: &'a Insert, events: &'a [Event]) -> Self {
        Self { insert, events: events.iter().map(|event| values(event).into()).collect() }
    }
}

impl<DB: Dialect> QueryFragment<DB> for Rows<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        // Each number of events is a text of its own, and diesel's cache keeps every text.
        if self.events.len() > 1 {
            out.unsafe_to_cache_prepared();
        }
        out.push_sql(&self.insert.head());
        for (row, values) in self.events.iter().enumerate() {
            if row > 0 {
                out.push_sql(", ");
            }
            for piece in self.insert.row() {
                match piece {
                    Piece::Sql(sql) => out.push_sql(sql),
                    Piece::Value(value) => DB::bind(&values[value], out.reborrow())?,
                }
            }
        }
        Ok(())
    }
}

impl QueryId for Rows<'_> {
    type QueryId = ();
    // The text decides: it has the names of the tables in it.
    const HAS_STATIC_QUERY_ID: bool = false;
}

//! From results to tables: conpact's summary, intervals, and how well a judge agrees with labels.
//!
//! Everything here is a pure function of [`ResultRow`]s. A missing answer is never counted as a miss: it leaves the
//! rate and is shown in a count of its own.

pub mod agreement;
pub mod bootstrap;
pub mod intervals;
pub mod rates;
pub mod row;
pub mod summary;

pub use agreement::Agreement;
pub use intervals::{Failures, IntervalRow, Measured, intervals, intervals_csv};
pub use rates::{Count, Interval, Tally, wilson};
pub use row::{ProbeAnswer, ResultRow};
pub use summary::{SummaryRow, summarize, summary_csv};

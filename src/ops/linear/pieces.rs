//! How the output of many rows is parted among threads.
use std::ops::Range;

/// The output parted into strips of columns and runs of row tiles.
pub(super) struct Pieces {
    strips: usize,
    tiles: usize,
    /// Runs of tiles that each strip is parted into.
    runs: usize,
}

impl Pieces {
    /// Pieces a thread should find, so that none waits long for the last.
    const PER_THREAD: usize = 8;
    /// Rows that pay for unpacking a strip once more.
    const MIN_ROWS: usize = 96;

    /// `strips` strips of columns by `tiles` tiles of `tile_rows` rows.
    pub(super) fn new(strips: usize, tiles: usize, tile_rows: usize, threads: usize) -> Self {
        let wanted = if threads == 1 { 1 } else { (Self::PER_THREAD * threads).div_ceil(strips) };
        Self { strips, tiles, runs: wanted.min(tiles * tile_rows / Self::MIN_ROWS).max(1) }
    }

    /// Number of pieces.
    pub(super) fn count(&self) -> usize {
        self.strips * self.runs
    }

    /// The strip and the tiles of a piece. A strip's pieces follow one another.
    pub(super) fn piece(&self, index: usize) -> (usize, Range<usize>) {
        let run = index % self.runs;
        (index / self.runs, run * self.tiles / self.runs..(run + 1) * self.tiles / self.runs)
    }
}

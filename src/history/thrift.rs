//! Walks a Thrift compact struct without building it, so that a Parquet file's declared lengths
//! are known to be true before the parquet crate allocates by them.
//!
//! Source: Thrift compact protocol specification (apache/thrift, doc/specs).

/// Nested structs and lists; Parquet's own metadata needs fewer than ten.
const MAX_DEPTH: usize = 24;
/// Elements of one list, far above the columns and row groups of any table of histories.
const MAX_LIST: u64 = 1 << 20;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// What the walk meets. A path is the field ids from the outermost struct inwards; elements of a
/// list have the path of the list.
pub(super) trait Visit {
    /// A struct begins.
    fn begin_struct(&mut self, path: &[i16]);
    /// An integer field.
    fn integer(&mut self, path: &[i16], value: i64);
}

/// Why a walk stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WalkError {
    /// The bytes end inside the struct: cut off, or a length points past the end.
    Truncated,
    /// Impossible bytes, said in words.
    Damaged(&'static str),
}

/// Walks the struct at the front of `bytes` and returns how many bytes it fills.
pub(super) fn walk(bytes: &[u8], visit: &mut dyn Visit) -> Result<usize, WalkError> {
    let mut walker = Walker { bytes, position: 0, path: Vec::new(), depth: 0, visit };
    walker.structure()?;
    Ok(walker.position)
}

struct Walker<'b, 'v> {
    bytes: &'b [u8],
    position: usize,
    path: Vec<i16>,
    depth: usize,
    visit: &'v mut dyn Visit,
}

impl Walker<'_, '_> {
    fn structure(&mut self) -> Result<(), WalkError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(WalkError::Damaged("structs nest too deep"));
        }
        self.visit.begin_struct(&self.path);
        let mut id = 0i16;
        loop {
            let header = self.byte()?;
            let kind = header & 0x0f;
            if kind == STOP {
                break;
            }
            id = match header >> 4 {
                0 => i16::try_from(self.zigzag()?)
                    .map_err(|_| WalkError::Damaged("a field id out of range"))?,
                delta => id.wrapping_add(i16::from(delta)),
            };
            self.path.push(id);
            // A bool field has no bytes beyond its header.
            if kind != TRUE && kind != FALSE {
                self.value(kind)?;
            }
            self.path.pop();
        }
        self.depth -= 1;
        Ok(())
    }

    fn value(&mut self, kind: u8) -> Result<(), WalkError> {
        match kind {
            TRUE | FALSE | 3 => self.skip(1),
            4..=6 => {
                let value = self.zigzag()?;
                self.visit.integer(&self.path, value);
                Ok(())
            }
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            LIST | SET => self.list(),
            MAP => self.map(),
            STRUCT => self.structure(),
            13 => self.skip(16),
            _ => Err(WalkError::Damaged("an unknown field type")),
        }
    }

    fn list(&mut self) -> Result<(), WalkError> {
        let header = self.byte()?;
        let size = match header >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        self.nested(size, &[header & 0x0f])
    }

    fn map(&mut self) -> Result<(), WalkError> {
        let size = self.varint()?;
        if size == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.nested(size, &[kinds >> 4, kinds & 0x0f])
    }

    /// `size` elements of the given types in turn. Each fills at least a byte.
    fn nested(&mut self, size: u64, kinds: &[u8]) -> Result<(), WalkError> {
        if size > MAX_LIST {
            return Err(WalkError::Damaged("a list of more than 1048576 elements"));
        }
        if size > (self.bytes.len() - self.position) as u64 {
            return Err(WalkError::Truncated);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(WalkError::Damaged("lists nest too deep"));
        }
        for _ in 0..size {
            for kind in kinds {
                self.value(*kind)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, WalkError> {
        let byte = self.bytes.get(self.position).ok_or(WalkError::Truncated)?;
        self.position += 1;
        Ok(*byte)
    }

    fn skip(&mut self, length: u64) -> Result<(), WalkError> {
        let left = (self.bytes.len() - self.position) as u64;
        if length > left {
            return Err(WalkError::Truncated);
        }
        self.position += length as usize;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, WalkError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WalkError::Damaged("an integer of more than ten bytes"))
    }

    fn zigzag(&mut self) -> Result<i64, WalkError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

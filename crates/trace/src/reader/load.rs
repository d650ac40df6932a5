//! Whole blocks, checked and decompressed.

use super::{Source, Trace};
use crate::block::{HEAD, Head, Kind};
use crate::error::{BlockFault, TraceError};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Opens blocks for all streams of a trace: it has more memory than a stream. Its lock is held while one
/// block is read and decompressed.
pub(super) struct Opener {
    stored: Vec<u8>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Opener {
    pub(super) fn new() -> io::Result<Opener> {
        Ok(Opener {
            stored: Vec::new(),
            decompressor: zstd::bulk::Decompressor::new()?,
        })
    }
}

/// Reads the head of a block, which has to end before `length`.
pub(super) fn read_head(
    source: &dyn Source,
    name: &Arc<str>,
    offset: u64,
    length: u64,
) -> Result<Head, TraceError> {
    let fault = |why| TraceError::Block {
        trace: name.clone(),
        offset,
        why,
    };
    let left = length.saturating_sub(offset);
    if left < HEAD as u64 {
        return Err(fault(BlockFault::Cut));
    }
    let mut bytes = [0; HEAD];
    source
        .read(&mut bytes, offset)
        .map_err(TraceError::io(name))?;
    let head = Head::from_bytes(&bytes).map_err(fault)?;
    if head.whole() > left {
        return Err(fault(BlockFault::Cut));
    }
    Ok(head)
}

/// Reads whole blocks.
pub(super) struct Loader {
    pub(super) name: Arc<str>,
    source: Arc<dyn Source>,
    length: u64,
    opener: Arc<Mutex<Opener>>,
    /// Memory of a content that is done with.
    pub(super) spare: Vec<u8>,
}

impl Loader {
    pub(super) fn new(trace: &Trace) -> Result<Loader, TraceError> {
        Ok(Loader {
            name: trace.name.clone(),
            source: trace.source.clone(),
            length: trace.source.length().map_err(TraceError::io(&trace.name))?,
            opener: trace.opener.clone(),
            spare: Vec::new(),
        })
    }

    pub(super) fn load(&mut self, offset: u64, kind: Kind) -> Result<(Head, Vec<u8>), TraceError> {
        let head = read_head(&*self.source, &self.name, offset, self.length)?;
        let fault = |why| TraceError::Block {
            trace: self.name.clone(),
            offset,
            why,
        };
        if head.kind != kind {
            return Err(fault(BlockFault::NoBlock));
        }
        // A thread that panicked with the lock left nothing half done: both are overwritten.
        let mut opener = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        let Opener {
            stored,
            decompressor,
        } = &mut *opener;
        stored.resize(head.stored as usize, 0);
        let read = self.source.read(stored, offset + HEAD as u64);
        read.map_err(TraceError::io(&self.name))?;
        let mut content = std::mem::take(&mut self.spare);
        let opened = head.open(stored, &mut content, decompressor);
        opened.map_err(fault)?;
        Ok((head, content))
    }
}

//! Blocks, the parts of a trace after its head. Each has its own head and checksums, and can be decoded
//! without those before it.

use crate::error::BlockFault;
use crate::event::ThreadId;

/// Bytes of a block's head.
pub(crate) const HEAD: usize = 72;
/// The most bytes of a block's content, before compression.
pub(crate) const MAX_CONTENT: usize = 128 << 10;
/// The first bytes of a block.
const MAGIC: [u8; 4] = *b"PLTB";

/// The kind of a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Events,
    Names,
    Index,
    /// A newer revision wrote it, and a reader does without it.
    PassedOver,
}

/// How the content of a block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Plain,
    Zstd,
}

/// The head of a block. The clocks are those at which its first event begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) codec: Codec,
    pub(crate) thread: ThreadId,
    /// Events, or entries of other kinds of blocks.
    pub(crate) count: u32,
    /// Bytes in the file.
    pub(crate) stored: u32,
    /// Bytes of the content.
    pub(crate) content: u32,
    /// The event number of the first event.
    pub(crate) event: u64,
    pub(crate) allocated: u64,
    pub(crate) time: u64,
    pub(crate) object: u64,
    pub(crate) stamp: u64,
    /// CRC-32 of the bytes in the file.
    pub(crate) sum: u32,
}

impl Head {
    pub(crate) fn to_bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = match self.kind {
            Kind::Events => 1,
            Kind::Names => 2,
            Kind::Index => 3,
            Kind::PassedOver => 128,
        };
        bytes[5] = match self.codec {
            Codec::Plain => 0,
            Codec::Zstd => 1,
        };
        let narrow = [self.thread.0, self.count, self.stored, self.content];
        for (index, value) in narrow.into_iter().enumerate() {
            bytes[8 + 4 * index..][..4].copy_from_slice(&value.to_le_bytes());
        }
        let wide = [
            self.event,
            self.allocated,
            self.time,
            self.object,
            self.stamp,
        ];
        for (index, value) in wide.into_iter().enumerate() {
            bytes[24 + 8 * index..][..8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[64..68].copy_from_slice(&self.sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..68]);
        bytes[68..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; HEAD]) -> Result<Head, BlockFault> {
        if bytes[..4] != MAGIC {
            return Err(BlockFault::NoBlock);
        }
        let narrow = |at: usize| {
            let four: [u8; 4] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_le_bytes(four)
        };
        let wide = |at: usize| u64::from(narrow(at)) | u64::from(narrow(at + 4)) << 32;
        if crc32fast::hash(&bytes[..68]) != narrow(68) {
            return Err(BlockFault::HeaderSum);
        }
        let kind = match bytes[4] {
            1 => Kind::Events,
            2 => Kind::Names,
            3 => Kind::Index,
            128.. => Kind::PassedOver,
            unknown => return Err(BlockFault::Kind(unknown)),
        };
        let codec = match bytes[5] {
            0 => Codec::Plain,
            1 => Codec::Zstd,
            unknown => return Err(BlockFault::Codec(unknown)),
        };
        let head = Head {
            kind,
            codec,
            thread: ThreadId(narrow(8)),
            count: narrow(12),
            stored: narrow(16),
            content: narrow(20),
            event: wide(24),
            allocated: wide(32),
            time: wide(40),
            object: wide(48),
            stamp: wide(56),
            sum: narrow(64),
        };
        match head.content.max(head.stored) {
            large if large as usize > MAX_CONTENT => Err(BlockFault::Large(large)),
            _ => Ok(head),
        }
    }

    /// Bytes of the whole block in the file.
    pub(crate) fn whole(&self) -> u64 {
        HEAD as u64 + u64::from(self.stored)
    }

    /// Checks the bytes that the file has of the content, and decompresses them into `content`, which is
    /// emptied first.
    pub(crate) fn open(
        &self,
        stored: &[u8],
        content: &mut Vec<u8>,
        decompressor: &mut zstd::bulk::Decompressor<'_>,
    ) -> Result<(), BlockFault> {
        if crc32fast::hash(stored) != self.sum {
            return Err(BlockFault::ContentSum);
        }
        content.clear();
        // No more than that: one content is kept of each stream.
        content.reserve_exact(self.content as usize);
        match self.codec {
            Codec::Plain => content.extend_from_slice(stored),
            Codec::Zstd => {
                decompressor
                    .decompress_to_buffer(stored, content)
                    .map_err(|_| BlockFault::Decompress)?;
            }
        }
        if content.len() != self.content as usize {
            return Err(BlockFault::Decompress);
        }
        Ok(())
    }
}

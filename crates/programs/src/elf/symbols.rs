//! Where the symbols of a mapped file are in the process.

use super::{Image, Little, contents, is_named};
use object::elf::{SHT_DYNSYM, SHT_SYMTAB, SectionHeader64, Sym64};
use object::pod::slice_from_bytes;
use plimsoll_kernel::smaps::Addresses;

impl Image {
    /// Where a symbol is in the process, from the table that the loader uses or, if it is not
    /// there, from the one that debuggers use. Its end is its start if the table gives no size.
    pub fn symbol(&self, name: &str) -> Option<Addresses> {
        let symbols = |kind| self.symbol_in(kind, name);
        symbols(SHT_DYNSYM).or_else(|| symbols(SHT_SYMTAB))
    }

    /// Where a symbol is that the loader knows of: faster if it may not be there at all.
    pub fn exported(&self, name: &str) -> Option<Addresses> {
        self.symbol_in(SHT_DYNSYM, name)
    }

    fn symbol_in(&self, kind: u32, name: &str) -> Option<Addresses> {
        let is_table = |s: &&SectionHeader64<Little>| s.sh_type.get(Little) == kind;
        let table = self.elf.sections.iter().find(is_table)?;
        let names = self.elf.sections.get(table.sh_link.get(Little) as usize)?;
        let names = contents(&self.elf.file, names)?;
        let symbols = contents(&self.elf.file, table)?;
        let count = symbols.len() / size_of::<Sym64<Little>>();
        let (symbols, _) = slice_from_bytes::<Sym64<Little>>(&symbols, count).ok()?;
        let symbol = symbols.iter().find(|symbol| {
            symbol.st_shndx.get(Little) != 0
                && is_named(&names, symbol.st_name.get(Little) as usize, name)
        })?;
        let start = symbol.st_value.get(Little).checked_add(self.bias)?;
        Some(start..start.checked_add(symbol.st_size.get(Little))?)
    }
}

//! Simulations as a file of Parquet: a row for each, all in one row group. The same rows make the same bytes.

use super::columns::{COLUMNS, Column, Kind, row, run};
use super::run::Run;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

/// The key by which the file says that it is one of ours. Its value is [`VERSION`], a space, and [`SUM`]
/// hexadecimal digits: the CRC-32 of the whole file with these digits as zeros. It is checked before
/// anything is parsed, because the crate `parquet` panics on some damaged files, and shows others with wrong
/// numbers.
const KEY: &str = "plimsoll.sim";
/// The version of the columns.
const VERSION: &str = "1";
/// Digits of the checksum.
const SUM: usize = 8;
/// The magic at both ends of a Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// Bytes between the key and its value in the file: what Thrift writes before a text of this length.
const BETWEEN: usize = 2;
/// The largest file that is read, bytes: several times what the largest sweep needs.
const LARGEST: u64 = 256 << 20;

/// Writes a file.
///
/// # Errors
/// Those of the writer.
pub(super) fn write(runs: &[Run], out: &mut dyn Write) -> Result<()> {
    let mut bytes = Vec::new();
    columns(runs, &mut bytes)?;
    let Some(place) = sum_place(&bytes) else {
        return Err(ParquetError::General("its own key is missing".into()));
    };
    let sum = format!("{:08x}", crc32fast::hash(&bytes));
    bytes[place..place + SUM].copy_from_slice(sum.as_bytes());
    out.write_all(&bytes)?;
    Ok(())
}

/// Writes a file without its checksum.
fn columns(runs: &[Run], into: &mut Vec<u8>) -> Result<()> {
    let key = KeyValue::new(KEY.to_owned(), format!("{VERSION} {}", "0".repeat(SUM)));
    let properties = WriterProperties::builder()
        .set_created_by("plimsoll".to_owned())
        .set_key_value_metadata(Some(vec![key]))
        .build();
    let mut writer = SerializedFileWriter::new(into, schema()?, Arc::new(properties))?;
    let mut rows: Vec<Vec<Value>> = runs.iter().map(row).collect();
    let mut group = writer.next_row_group()?;
    for (index, column) in COLUMNS.iter().enumerate() {
        let values: Vec<Value> = rows.iter_mut().map(|row| row[index].take()).collect();
        let Some(mut open) = group.next_column()? else {
            return Err(ParquetError::General("a column is missing".into()));
        };
        fill(column, &values, open.untyped())?;
        open.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Where the digits of the checksum stand, if the file says that it is one of ours.
fn sum_place(bytes: &[u8]) -> Option<usize> {
    let key = bytes
        .windows(KEY.len())
        .rposition(|it| it == KEY.as_bytes())?;
    let value = key + KEY.len() + BETWEEN;
    let version = bytes.get(value..)?.strip_prefix(VERSION.as_bytes())?;
    let digits = version.strip_prefix(b" ")?.get(..SUM)?;
    digits
        .iter()
        .all(u8::is_ascii_hexdigit)
        .then_some(value + VERSION.len() + 1)
}

/// Checks that a file is one of ours, and as it was written.
fn check(mut bytes: Vec<u8>) -> std::result::Result<(), &'static str> {
    if !bytes.starts_with(MAGIC) || !bytes.ends_with(MAGIC) {
        return Err("it is no Parquet");
    }
    let Some(place) = sum_place(&bytes) else {
        return Err("it is Parquet, and not of this version of plimsoll sim");
    };
    let digits = &mut bytes[place..place + SUM];
    let told = String::from_utf8_lossy(digits).into_owned();
    digits.fill(b'0');
    if told == format!("{:08x}", crc32fast::hash(&bytes)) {
        Ok(())
    } else {
        Err("it is damaged: its checksum is wrong")
    }
}

fn schema() -> Result<TypePtr> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Real => (Physical::DOUBLE, None),
        };
        let repetition = if column.always {
            Repetition::REQUIRED
        } else {
            Repetition::OPTIONAL
        };
        let builder = Type::primitive_type_builder(column.name, physical);
        let typed = builder.with_logical_type(logical);
        typed.with_repetition(repetition).build().map(Arc::new)
    };
    let fields: Result<Vec<TypePtr>> = COLUMNS.iter().map(field).collect();
    let root = Type::group_type_builder("simulations").with_fields(fields?);
    root.build().map(Arc::new)
}

/// Writes the values of a column. Where a row may have none, a level says which rows have one.
fn fill(column: &Column, values: &[Value], into: &mut ColumnWriter<'_>) -> Result<()> {
    let levels: Vec<i16> = values.iter().map(|it| i16::from(!it.is_null())).collect();
    let levels = (!column.always).then_some(levels.as_slice());
    let there = values.iter().filter(|value| !value.is_null());
    match into {
        ColumnWriter::ByteArrayColumnWriter(into) => {
            let texts = there.map(|it| ByteArray::from(it.as_str().unwrap_or_default()));
            into.write_batch(&texts.collect::<Vec<_>>(), levels, None)?
        }
        ColumnWriter::BoolColumnWriter(into) => {
            let flags = there.map(|it| it.as_bool().unwrap_or_default());
            into.write_batch(&flags.collect::<Vec<_>>(), levels, None)?
        }
        ColumnWriter::Int64ColumnWriter(into) => {
            // The type of the column says that it has no sign.
            let counts = there.map(|it| it.as_u64().unwrap_or_default().cast_signed());
            into.write_batch(&counts.collect::<Vec<_>>(), levels, None)?
        }
        ColumnWriter::DoubleColumnWriter(into) => {
            let reals = there.map(|it| it.as_f64().unwrap_or_default());
            into.write_batch(&reals.collect::<Vec<_>>(), levels, None)?
        }
        _ => return Err(ParquetError::General("a column of another type".into())),
    };
    Ok(())
}

/// Reads a file that [`write()`] has written.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(super) fn read(file: File) -> std::result::Result<Vec<Run>, String> {
    let mut bytes = Vec::new();
    let whole = (&file).take(LARGEST).read_to_end(&mut bytes);
    if whole.map_err(|error| error.to_string())? as u64 >= LARGEST {
        return Err("it is larger than any that plimsoll sim writes".into());
    }
    check(bytes)?;
    let wrong = |error: ParquetError| format!("it is not as plimsoll sim writes it: {error}");
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let mut runs = Vec::new();
    for row in reader.get_row_iter(None).map_err(wrong)? {
        let fields = row.map_err(wrong)?.into_columns();
        let names = fields.iter().map(|(name, _)| name.as_str());
        if !names.eq(COLUMNS.iter().map(|column| column.name)) {
            return Err("it has other columns than this version of plimsoll sim writes".into());
        }
        let run = run(fields.iter().map(|(_, field)| value(field)).collect());
        runs.push(run.ok_or("a row of it is no simulation")?);
    }
    Ok(runs)
}

/// The value of a field, if it is of a type that we write.
fn value(field: &Field) -> Value {
    match field {
        Field::Str(text) => text.as_str().into(),
        Field::Bool(flag) => (*flag).into(),
        Field::ULong(count) => (*count).into(),
        Field::Double(real) => (*real).into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use std::io::Seek;

    fn written(runs: &[Run]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(runs, &mut bytes).unwrap();
        bytes
    }

    fn read_of(bytes: &[u8]) -> std::result::Result<Vec<Run>, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        read(file)
    }

    #[test]
    fn what_is_written_is_read_and_written_the_same() {
        for runs in [
            vec![],
            vec![samples::failed()],
            vec![samples::done(), samples::failed(), samples::done()],
        ] {
            let bytes = written(&runs);
            let again = read_of(&bytes).unwrap();
            assert_eq!(again, runs);
            assert!(bytes == written(&again));
        }
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let bytes = written(&[samples::done()]);
        assert!(read_of(b"").unwrap_err().contains("no Parquet"));
        assert!(read_of(b"hello, world").unwrap_err().contains("no Parquet"));
        assert!(
            read_of(b"PAR1 PAR1")
                .unwrap_err()
                .contains("not of this version")
        );
        for end in (0..bytes.len()).step_by(97) {
            assert!(read_of(&bytes[..end]).is_err(), "{end}");
        }
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            assert!(read_of(&damaged).is_err(), "{at}");
        }
    }
}

use super::types::Collector;
use plimsoll_unit::Bytes;

/// Size beyond which collecting costs less than `permille` thousandths of the time: live +
/// live x allocation rate / (collection speed x fraction), saturating. [`Bytes::MAX`] when `live`
/// or the speed is unknown, or `permille` is 0.
///
/// A collection processes the live bytes and makes room for `size - live` bytes of allocation. So
/// the part of the time spent collecting is (live / speed) / ((size - live) / rate).
pub fn useful_demand(collector: &Collector, permille: u32) -> Bytes {
    let Collector {
        live,
        allocation_rate,
        collection_speed,
    } = *collector;
    if !collector.is_known() || permille == 0 {
        return Bytes::MAX;
    }
    let work = u128::from(live) * u128::from(allocation_rate);
    let worth = u128::from(collection_speed) * u128::from(permille);
    // Multiplies before dividing where that fits, to lose little by rounding.
    let room = work
        .checked_mul(1000)
        .map_or_else(|| (work / worth).saturating_mul(1000), |w| w / worth);
    Bytes(u64::try_from(room).unwrap_or(u64::MAX)) + Bytes(live)
}

//! Decodes the records of a log, and prints how many there are and the bytes of keys and values.

use bytes::{Buf, Bytes};
use kafka_protocol::records::RecordBatchDecoder;

fn main() {
    let path = std::env::args().nth(1).expect("the path of a log");
    let mut data = Bytes::from(std::fs::read(path).expect("a log"));
    let (mut records, mut bytes) = (0, 0);
    while data.has_remaining() {
        // A batch at a time: memory for all of them costs more than decoding them.
        let size = 12 + u32::from_be_bytes(data[8..12].try_into().unwrap()) as usize;
        let mut batch = data.split_to(size);
        for record in RecordBatchDecoder::decode(&mut batch).expect("a sound batch").records {
            records += 1;
            bytes += record.key.map_or(0, |key| key.len());
            bytes += record.value.map_or(0, |value| value.len());
        }
    }
    println!("{records} {bytes}");
}

use super::samples::{jvm, small};
use super::*;

#[test]
#[ignore = "writes pages to look at"]
fn pages_to_look_at() {
    let looks: Vec<Look> = (0..=60).map(|n| jvm(f64::from(n))).collect();
    let page = page(&[Shown { title: "java (4711), HotSpot", looks: &looks }], None);
    std::fs::write("/tmp/html-jvm.html", page).unwrap();
    let looks = [small(0.0)];
    let page = super::page(&[Shown { title: "sleep (12)", looks: &looks }], None);
    std::fs::write("/tmp/html-small.html", page).unwrap();
}

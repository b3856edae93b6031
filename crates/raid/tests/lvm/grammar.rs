//! The text from any side: what is written is read again, and nothing makes the reader fail.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;
use pumice_raid::lvm::group::Group;
use pumice_raid::lvm::pieces::pieces;
use pumice_raid::lvm::text::{self, Entry, Section, Value};

use crate::made::{Made, text as made_text};

/// A tree as it should be read.
#[derive(Debug, Clone)]
enum Tree {
    Section(BTreeMap<String, Tree>),
    Value(Value),
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::Integer),
        any::<i64>().prop_filter("a sign", |n| *n < 0).prop_map(|n| Value::Number(n.to_string())),
        any::<f64>().prop_filter("a number", |x| x.is_finite()).prop_map(|x| Value::Number(format!("{x:e}"))),
        "[^\u{0}]{0,12}".prop_map(Value::Text),
        "[\"\\\\#\n{}=]{0,6}".prop_map(Value::Text),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![scalar(), proptest::collection::vec(scalar(), 0..5).prop_map(Value::List)]
}

fn tree() -> impl Strategy<Value = BTreeMap<String, Tree>> {
    let name = || "[a-zA-Z0-9._+-]{1,8}";
    let leaf = proptest::collection::btree_map(name(), value().prop_map(Tree::Value), 0..4);
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let entry = prop_oneof![value().prop_map(Tree::Value), inner.prop_map(Tree::Section)];
        proptest::collection::btree_map(name(), entry, 0..4)
    })
}

/// Writes a tree; `space` chooses what stands between two words.
fn write(out: &mut String, tree: &BTreeMap<String, Tree>, space: &str) {
    let scalar = |value: &Value| match value {
        Value::Integer(number) => number.to_string(),
        Value::Number(text) => text.clone(),
        Value::Text(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::List(_) => unreachable!("a list in a list"),
    };
    for (name, entry) in tree {
        match entry {
            Tree::Section(inner) => {
                write!(out, "{name}{space}{{{space}").unwrap();
                write(out, inner, space);
                write!(out, "}}{space}").unwrap();
            }
            Tree::Value(Value::List(items)) => {
                let items: Vec<String> = items.iter().map(scalar).collect();
                let items = items.join(&format!("{space},{space}"));
                writeln!(out, "{name}{space}={space}[{space}{items}{space}]{space}").unwrap();
            }
            Tree::Value(value) => writeln!(out, "{name}{space}={space}{}{space}", scalar(value)).unwrap(),
        }
    }
}

fn is(section: &Section, tree: &BTreeMap<String, Tree>) -> bool {
    section.entries().count() == tree.len()
        && tree.iter().all(|(name, entry)| match (section.get(name), entry) {
            (Some(Entry::Section(section)), Tree::Section(tree)) => is(section, tree),
            (Some(Entry::Value(found)), Tree::Value(value)) => found == value,
            _ => false,
        })
}

/// Follows every volume of a text that is accepted.
fn follow(bytes: &[u8]) {
    let Ok(file) = text::parse(bytes) else { return };
    let Ok(group) = Group::of(&file) else { return };
    for (index, lv) in group.logical.iter().enumerate() {
        assert!(!group.above(index).contains(&index));
        let Ok(pieces) = pieces(&group, index) else { continue };
        let sum: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        assert_eq!(sum, lv.extents() * group.extent_bytes());
        for piece in pieces {
            let Some((pv, start)) = piece.place else { continue };
            let pv = &group.physical[pv];
            let end = pv.start_sector * 512 + pv.extents * group.extent_bytes();
            assert!(start >= pv.start_sector * 512 && start + piece.bytes <= end, "{piece:?} of {pv:?}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(tree in tree(), space in "[ \t\n]{0,2}|( #x\n)") {
        let mut text = String::new();
        write(&mut text, &tree, &space);
        let read = text::parse(text.as_bytes());
        prop_assert!(read.as_ref().is_ok_and(|read| is(read, &tree)), "{text}\n{read:?}");
    }

    #[test]
    fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = text::parse(&bytes);
    }

    #[test]
    fn anything_of_the_grammars_characters(text in "[a-c {}=\"\\\\,#\n0-9\\[\\]]{0,200}") {
        let _ = text::parse(text.as_bytes());
    }

    /// A text that its checksum would pass, with bytes changed: whatever is accepted can be
    /// followed, and stays inside its physical volumes.
    #[test]
    fn changed_texts_are_followed_to_their_end(
        kind in prop::sample::select(vec!["raid1", "raid5_ls", "raid10"]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), "[0-9a-z\"\\[\\],{}=]"), 1..5),
    ) {
        let mut text = made_text(kind, 4, 1).into_bytes();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte.as_bytes()[0];
        }
        follow(&text);
        let mut made = Made::new(kind, 4);
        made.texts = vec![String::from_utf8_lossy(&text).into_owned(); 4];
        made.seal();
        let _ = made.look();
    }

    /// The superblock of one image, with bytes changed: the array is the same, or it is refused.
    #[test]
    fn changed_superblocks(
        kind in prop::sample::select(vec!["raid1", "raid5_ls", "raid6_zr", "raid10"]),
        changes in proptest::collection::vec((0..160_usize, any::<u8>()), 1..4),
    ) {
        let good = Made::new(kind, 4).volume().unwrap();
        let mut made = Made::new(kind, 4);
        for (at, byte) in changes {
            made = made.poke([1], at, &[byte]);
        }
        if let Ok(volume) = made.volume() {
            prop_assert_eq!(&volume.arrangement, &good.arrangement);
            prop_assert_eq!(volume.data_offset, good.data_offset);
            prop_assert_eq!(volume.resync, good.resync);
            for role in [0, 2, 3] {
                prop_assert_eq!(&volume.images[role], &good.images[role]);
            }
        }
    }
}

//! A variant of an enum that a key of a table names, with the key's value as its content.

use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, VariantAccess, Visitor};

/// Reads a value as the variant of this name.
pub struct Named<'a, T>(&'a str, PhantomData<T>);

impl<'a, T> Named<'a, T> {
    pub fn new(name: &'a str) -> Self {
        Self(name, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Named<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<T, D::Error> {
        T::deserialize(Variant { name: self.0, value })
    }
}

/// A variant's name and its content, as serde wants to see an enum.
struct Variant<'a, D> {
    name: &'a str,
    value: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Variant<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, D: Deserializer<'de>> EnumAccess<'de> for Variant<'_, D> {
    type Error = D::Error;
    type Variant = Content<D>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Content<D>), D::Error> {
        let variant = seed.deserialize(StrDeserializer::new(self.name))?;
        Ok((variant, Content(self.value)))
    }
}

struct Content<D>(D);

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for Content<D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        Err(D::Error::custom("expected a table"))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, D::Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct("", fields, visitor)
    }
}

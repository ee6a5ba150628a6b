/*
 * This file and its contents are supplied under the terms of the
 * Common Development and Distribution License ("CDDL"), version 1.0.
 * You may only use this file in accordance with the terms of version
 * 1.0 of the CDDL.
 *
 * A full copy of the text of the CDDL should have accompanied this
 * source.  A copy of the CDDL is also available via the Internet at
 * http://www.illumos.org/license/CDDL.
 */

/*
 * Atomic operations: membar_ops(9F), atomic_ops(9F).  Naturally aligned
 * operands; each is a full barrier on amd64.  The _nv forms return the new value.
 */

#ifndef	_SYS_ATOMIC_H
#define	_SYS_ATOMIC_H

#include <sys/types.h>

extern void atomic_add_16(volatile uint16_t *, int16_t);
extern uint16_t atomic_add_16_nv(volatile uint16_t *, int16_t);
extern void atomic_add_32(volatile uint32_t *, int32_t);
extern uint32_t atomic_add_32_nv(volatile uint32_t *, int32_t);
extern void atomic_add_64(volatile uint64_t *, int64_t);
extern uint64_t atomic_add_64_nv(volatile uint64_t *, int64_t);
extern void atomic_add_8(volatile uint8_t *, int8_t);
extern uint8_t atomic_add_8_nv(volatile uint8_t *, int8_t);
extern void atomic_add_char(volatile uchar_t *, signed char);
extern uchar_t atomic_add_char_nv(volatile uchar_t *, signed char);
extern void atomic_add_int(volatile uint_t *, int);
extern uint_t atomic_add_int_nv(volatile uint_t *, int);
extern void atomic_add_long(volatile ulong_t *, long);
extern ulong_t atomic_add_long_nv(volatile ulong_t *, long);
extern void atomic_add_ptr(volatile void *, ssize_t);
extern void *atomic_add_ptr_nv(volatile void *, ssize_t);
extern void atomic_add_short(volatile ushort_t *, short);
extern ushort_t atomic_add_short_nv(volatile ushort_t *, short);
extern void atomic_and_16(volatile uint16_t *, uint16_t);
extern uint16_t atomic_and_16_nv(volatile uint16_t *, uint16_t);
extern void atomic_and_32(volatile uint32_t *, uint32_t);
extern uint32_t atomic_and_32_nv(volatile uint32_t *, uint32_t);
extern void atomic_and_64(volatile uint64_t *, uint64_t);
extern uint64_t atomic_and_64_nv(volatile uint64_t *, uint64_t);
extern void atomic_and_8(volatile uint8_t *, uint8_t);
extern uint8_t atomic_and_8_nv(volatile uint8_t *, uint8_t);
extern void atomic_and_uchar(volatile uchar_t *, uchar_t);
extern uchar_t atomic_and_uchar_nv(volatile uchar_t *, uchar_t);
extern void atomic_and_uint(volatile uint_t *, uint_t);
extern uint_t atomic_and_uint_nv(volatile uint_t *, uint_t);
extern void atomic_and_ulong(volatile ulong_t *, ulong_t);
extern ulong_t atomic_and_ulong_nv(volatile ulong_t *, ulong_t);
extern void atomic_and_ushort(volatile ushort_t *, ushort_t);
extern ushort_t atomic_and_ushort_nv(volatile ushort_t *, ushort_t);
extern uint16_t atomic_cas_16(volatile uint16_t *, uint16_t, uint16_t);
extern uint32_t atomic_cas_32(volatile uint32_t *, uint32_t, uint32_t);
extern uint64_t atomic_cas_64(volatile uint64_t *, uint64_t, uint64_t);
extern uint8_t atomic_cas_8(volatile uint8_t *, uint8_t, uint8_t);
extern void *atomic_cas_ptr(volatile void *, void *, void *);
extern uchar_t atomic_cas_uchar(volatile uchar_t *, uchar_t, uchar_t);
extern uint_t atomic_cas_uint(volatile uint_t *, uint_t, uint_t);
extern ulong_t atomic_cas_ulong(volatile ulong_t *, ulong_t, ulong_t);
extern ushort_t atomic_cas_ushort(volatile ushort_t *, ushort_t, ushort_t);
extern int atomic_clear_long_excl(volatile ulong_t *, uint_t);
extern void atomic_dec_16(volatile uint16_t *);
extern uint16_t atomic_dec_16_nv(volatile uint16_t *);
extern void atomic_dec_32(volatile uint32_t *);
extern uint32_t atomic_dec_32_nv(volatile uint32_t *);
extern void atomic_dec_64(volatile uint64_t *);
extern uint64_t atomic_dec_64_nv(volatile uint64_t *);
extern void atomic_dec_8(volatile uint8_t *);
extern uint8_t atomic_dec_8_nv(volatile uint8_t *);
extern void atomic_dec_uchar(volatile uchar_t *);
extern uchar_t atomic_dec_uchar_nv(volatile uchar_t *);
extern void atomic_dec_uint(volatile uint_t *);
extern uint_t atomic_dec_uint_nv(volatile uint_t *);
extern void atomic_dec_ulong(volatile ulong_t *);
extern ulong_t atomic_dec_ulong_nv(volatile ulong_t *);
extern void atomic_dec_ushort(volatile ushort_t *);
extern ushort_t atomic_dec_ushort_nv(volatile ushort_t *);
extern void atomic_inc_16(volatile uint16_t *);
extern uint16_t atomic_inc_16_nv(volatile uint16_t *);
extern void atomic_inc_32(volatile uint32_t *);
extern uint32_t atomic_inc_32_nv(volatile uint32_t *);
extern void atomic_inc_64(volatile uint64_t *);
extern uint64_t atomic_inc_64_nv(volatile uint64_t *);
extern void atomic_inc_8(volatile uint8_t *);
extern uint8_t atomic_inc_8_nv(volatile uint8_t *);
extern void atomic_inc_uchar(volatile uchar_t *);
extern uchar_t atomic_inc_uchar_nv(volatile uchar_t *);
extern void atomic_inc_uint(volatile uint_t *);
extern uint_t atomic_inc_uint_nv(volatile uint_t *);
extern void atomic_inc_ulong(volatile ulong_t *);
extern ulong_t atomic_inc_ulong_nv(volatile ulong_t *);
extern void atomic_inc_ushort(volatile ushort_t *);
extern ushort_t atomic_inc_ushort_nv(volatile ushort_t *);
extern void atomic_or_16(volatile uint16_t *, uint16_t);
extern uint16_t atomic_or_16_nv(volatile uint16_t *, uint16_t);
extern void atomic_or_32(volatile uint32_t *, uint32_t);
extern uint32_t atomic_or_32_nv(volatile uint32_t *, uint32_t);
extern void atomic_or_64(volatile uint64_t *, uint64_t);
extern uint64_t atomic_or_64_nv(volatile uint64_t *, uint64_t);
extern void atomic_or_8(volatile uint8_t *, uint8_t);
extern uint8_t atomic_or_8_nv(volatile uint8_t *, uint8_t);
extern void atomic_or_uchar(volatile uchar_t *, uchar_t);
extern uchar_t atomic_or_uchar_nv(volatile uchar_t *, uchar_t);
extern void atomic_or_uint(volatile uint_t *, uint_t);
extern uint_t atomic_or_uint_nv(volatile uint_t *, uint_t);
extern void atomic_or_ulong(volatile ulong_t *, ulong_t);
extern ulong_t atomic_or_ulong_nv(volatile ulong_t *, ulong_t);
extern void atomic_or_ushort(volatile ushort_t *, ushort_t);
extern ushort_t atomic_or_ushort_nv(volatile ushort_t *, ushort_t);
extern int atomic_set_long_excl(volatile ulong_t *, uint_t);
extern uint16_t atomic_swap_16(volatile uint16_t *, uint16_t);
extern uint32_t atomic_swap_32(volatile uint32_t *, uint32_t);
extern uint64_t atomic_swap_64(volatile uint64_t *, uint64_t);
extern uint8_t atomic_swap_8(volatile uint8_t *, uint8_t);
extern void *atomic_swap_ptr(volatile void *, void *);
extern uchar_t atomic_swap_uchar(volatile uchar_t *, uchar_t);
extern uint_t atomic_swap_uint(volatile uint_t *, uint_t);
extern ulong_t atomic_swap_ulong(volatile ulong_t *, ulong_t);
extern ushort_t atomic_swap_ushort(volatile ushort_t *, ushort_t);
extern void membar_consumer(void);
extern void membar_enter(void);
extern void membar_exit(void);
extern void membar_producer(void);

#endif	/* _SYS_ATOMIC_H */

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
 * Error numbers.  Above 34 they are not those of Linux.
 */

#ifndef	_SYS_ERRNO_H
#define	_SYS_ERRNO_H

#define	E2BIG	7

#define	EACCES	13

#define	EADDRINUSE	125

#define	EADDRNOTAVAIL	126

#define	EADV	0x44

#define	EAFNOSUPPORT	124

#define	EAGAIN	11

#define	EALREADY	149

#define	EBADE	50

#define	EBADF	9

#define	EBADFD	81

#define	EBADMSG	77

#define	EBADR	51

#define	EBADRQC	54

#define	EBADSLT	55

#define	EBFONT	57

#define	EBUSY	16

#define	ECANCELED	47

#define	ECHILD	10

#define	ECHRNG	37

#define	ECOMM	70

#define	ECONNABORTED	0x82

#define	ECONNREFUSED	146

#define	ECONNRESET	131

#define	EDEADLK	45

#define	EDEADLOCK	56

#define	EDESTADDRREQ	0x60

#define	EDOM	0x21

#define	EDQUOT	49

#define	EEXIST	17

#define	EFAULT	14

#define	EFBIG	27

#define	EHOSTDOWN	147

#define	EHOSTUNREACH	148

#define	EIDRM	0x24

#define	EILSEQ	88

#define	EINPROGRESS	150

#define	EINTR	4

#define	EINVAL	22

#define	EIO	5

#define	EISCONN	133

#define	EISDIR	21

#define	EL2HLT	44

#define	EL2NSYNC	38

#define	EL3HLT	39

#define	EL3RST	0x28

#define	ELIBACC	83

#define	ELIBBAD	84

#define	ELIBEXEC	87

#define	ELIBMAX	86

#define	ELIBSCN	85

#define	ELNRNG	41

#define	ELOCKUNMAPPED	0x48

#define	ELOOP	90

#define	EMFILE	24

#define	EMLINK	31

#define	EMSGSIZE	97

#define	EMULTIHOP	74

#define	ENAMETOOLONG	78

#define	ENETDOWN	127

#define	ENETRESET	0x81

#define	ENETUNREACH	0x80

#define	ENFILE	23

#define	ENOANO	53

#define	ENOBUFS	0x84

#define	ENOCSI	43

#define	ENODATA	61

#define	ENODEV	19

#define	ENOENT	2

#define	ENOEXEC	8

#define	ENOLCK	46

#define	ENOLINK	67

#define	ENOMEM	12

#define	ENOMSG	35

#define	ENONET	0x40

#define	ENOPKG	0x41

#define	ENOPROTOOPT	99

#define	ENOSPC	28

#define	ENOSR	63

#define	ENOSTR	60

#define	ENOSYS	89

#define	ENOTACTIVE	73

#define	ENOTBLK	15

#define	ENOTCONN	134

#define	ENOTDIR	20

#define	ENOTEMPTY	93

#define	ENOTRECOVERABLE	59

#define	ENOTSOCK	95

#define	ENOTSUP	0x30

#define	ENOTTY	25

#define	ENOTUNIQ	0x50

#define	ENXIO	6

#define	EOPNOTSUPP	122

#define	EOVERFLOW	79

#define	EOWNERDEAD	58

#define	EPERM	1

#define	EPFNOSUPPORT	123

#define	EPIPE	32

#define	EPROTO	71

#define	EPROTONOSUPPORT	120

#define	EPROTOTYPE	98

#define	ERANGE	0x22

#define	EREMCHG	82

#define	EREMOTE	0x42

#define	ERESTART	91

#define	EROFS	30

#define	ESHUTDOWN	143

#define	ESOCKTNOSUPPORT	121

#define	ESPIPE	29

#define	ESRCH	3

#define	ESRMNT	69

#define	ESTALE	151

#define	ESTRPIPE	92

#define	ETIME	62

#define	ETIMEDOUT	145

#define	ETOOMANYREFS	0x90

#define	ETXTBSY	26

#define	EUNATCH	42

#define	EUSERS	94

#define	EWOULDBLOCK	11

#define	EXDEV	18

#define	EXFULL	52

#endif	/* _SYS_ERRNO_H */

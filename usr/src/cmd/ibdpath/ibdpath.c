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
 * ibdpath - show how an IPoIB link reaches its neighbours.
 */

#include <sys/types.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "transport.h"

#define	EXIT_USAGE	2

/* Between two questions about an address that is being looked up. */
#define	PAUSE_MS	100
#define	DEFAULT_WAIT	5
#define	LONGEST_WAIT	3600

#define	VALUE_LEN	64

#define	COUNT(a)	(sizeof (a) / sizeof ((a)[0]))

typedef struct field {
	const char	*f_name;
	unsigned int	f_width;
	void		(*f_print)(char *, const ibd_path_info_t *);
} field_t;

static const char *progname = "ibdpath";

/* What was asked about, as it was given. */
static const char *asked_about;

static void
complain(const char *format, ...)
{
	va_list args;

	(void) fflush(stdout);
	(void) fprintf(stderr, "%s: ", progname);
	va_start(args, format);
	(void) vfprintf(stderr, format, args);
	va_end(args);
	(void) fputc('\n', stderr);
}

static int
usage(void)
{
	(void) fprintf(stderr, "usage: %s [-w seconds] [[-p] -o field[,...]] "
	    "link address...\n", progname);
	return (EXIT_USAGE);
}

/*
 * The fields.
 */
static void
print_address(char *to, const ibd_path_info_t *path)
{
	(void) path;
	(void) snprintf(to, VALUE_LEN, "%s", asked_about);
}

static void
print_neighbour(char *to, const ibd_path_info_t *path)
{
	size_t i;

	for (i = 0; i < IBD_PATH_ADDRL; i++)
		to += sprintf(to, i == 0 ? "%02x" : ":%02x",
		    path->ibp_neighbour[i]);
}

static void
print_gid(char *to, const uint8_t gid[16])
{
	(void) inet_ntop(AF_INET6, gid, to, VALUE_LEN);
}

static void
print_sgid(char *to, const ibd_path_info_t *path)
{
	print_gid(to, path->ibp_sgid);
}

static void
print_dgid(char *to, const ibd_path_info_t *path)
{
	print_gid(to, path->ibp_dgid);
}

static void
print_slid(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "0x%x", path->ibp_slid);
}

static void
print_dlid(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "0x%x", path->ibp_dlid);
}

static void
print_pkey(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "%04X", path->ibp_pkey);
}

static void
print_sl(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "%u", path->ibp_sl);
}

static void
print_tclass(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "%u", path->ibp_tclass);
}

static void
print_flow(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "0x%x", path->ibp_flow);
}

static void
print_hops(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "%u", path->ibp_hop_limit);
}

static void
print_mtu(char *to, const ibd_path_info_t *path)
{
	if (path->ibp_mtu != 0)
		(void) sprintf(to, "%u", path->ibp_mtu);
}

/* Signalling rates by PathRecord's code, from 2 on, in units of 0.1 Gb/s. */
static void
print_rate(char *to, const ibd_path_info_t *path)
{
	static const unsigned int rates[] = {
	    25, 100, 300, 50, 200, 400, 600, 800, 1200, 140, 560, 1120, 1680,
	    250, 1000, 2000, 3000, 280, 500, 4000, 6000, 8000, 12000
	};
	unsigned int code = path->ibp_rate;

	if (code < 2 || code - 2 >= COUNT(rates))
		return;
	if (rates[code - 2] % 10 == 0)
		(void) sprintf(to, "%uG", rates[code - 2] / 10);
	else
		(void) sprintf(to, "%u.%uG", rates[code - 2] / 10,
		    rates[code - 2] % 10);
}

/* 4.096 us times 2 to a power of at most 31. */
static void
print_lifetime(char *to, const ibd_path_info_t *path)
{
	double us;

	if (path->ibp_lifetime > 31)
		return;
	us = 4.096 * (double)(1UL << path->ibp_lifetime);
	if (us < 1000)
		(void) sprintf(to, "%.4gus", us);
	else if (us < 1000000)
		(void) sprintf(to, "%.4gms", us / 1000);
	else
		(void) sprintf(to, "%.4gs", us / 1000000);
}

static void
print_age(char *to, const ibd_path_info_t *path)
{
	(void) sprintf(to, "%us", path->ibp_age);
}

static void
print_kind(char *to, const ibd_path_info_t *path)
{
	(void) strcpy(to, (path->ibp_flags & IBD_PATH_GROUP) != 0 ?
	    "group" : "port");
}

static void
print_grh(char *to, const ibd_path_info_t *path)
{
	(void) strcpy(to, (path->ibp_flags & IBD_PATH_GRH) != 0 ?
	    "yes" : "no");
}

static const field_t fields[] = {
	{ "ADDRESS",	24, print_address },
	{ "KIND",	6, print_kind },
	{ "NEIGHBOUR",	60, print_neighbour },
	{ "SGID",	40, print_sgid },
	{ "DGID",	40, print_dgid },
	{ "SLID",	7, print_slid },
	{ "DLID",	7, print_dlid },
	{ "PKEY",	5, print_pkey },
	{ "SL",		3, print_sl },
	{ "TCLASS",	7, print_tclass },
	{ "FLOW",	8, print_flow },
	{ "HOPS",	5, print_hops },
	{ "GRH",	4, print_grh },
	{ "MTU",	5, print_mtu },
	{ "RATE",	6, print_rate },
	{ "LIFETIME",	9, print_lifetime },
	{ "AGE",	6, print_age }
};

static const char default_fields[] =
	"address,slid,dlid,pkey,sl,mtu,rate,lifetime,age";

static const field_t *chosen[COUNT(fields)];
static size_t nchosen;

static const field_t *
field_named(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(fields); i++)
		if (strcasecmp(fields[i].f_name, name) == 0)
			return (&fields[i]);
	return (NULL);
}

/* The fields of a comma-separated list; whether all is well. */
static int
choose(const char *names, int parsable)
{
	char *list, *name, *rest;
	size_t i;

	if (strcasecmp(names, "all") == 0) {
		if (parsable) {
			complain("output field `all' invalid in parsable mode");
			return (0);
		}
		for (i = 0; i < COUNT(fields); i++)
			chosen[nchosen++] = &fields[i];
		return (1);
	}
	if ((list = strdup(names)) == NULL) {
		complain("out of memory");
		return (0);
	}
	for (name = strtok_r(list, ",", &rest); name != NULL;
	    name = strtok_r(NULL, ",", &rest)) {
		const field_t *field = field_named(name);

		if (field == NULL && parsable) {
			complain("unknown output field: `%s'", name);
			free(list);
			return (0);
		}
		if (field == NULL) {
			complain("warning: ignoring unknown output field: "
			    "`%s'", name);
		} else if (nchosen == COUNT(chosen)) {
			complain("too many output fields");
			free(list);
			return (0);
		} else {
			chosen[nchosen++] = field;
		}
	}
	free(list);
	if (nchosen == 0)
		complain("no valid output fields");
	return (nchosen != 0);
}

/*
 * A value that is too wide takes the room of the columns to its right.
 */
static void
print_cell(const char *value, size_t i, unsigned int *over)
{
	unsigned int len = (unsigned int)strlen(value);
	unsigned int width = chosen[i]->f_width;
	unsigned int less;

	if (i + 1 == nchosen) {
		(void) printf("%s\n", value);
		return;
	}
	if (len + *over >= width) {
		(void) printf("%s ", value);
		*over = *over + len + 1 - width;
		return;
	}
	less = *over < width - len ? *over : width - len;
	(void) printf("%-*s", (int)(width - less), value);
	*over -= less;
}

static void
print_header(void)
{
	unsigned int over = 0;
	size_t i;

	for (i = 0; i < nchosen; i++)
		print_cell(chosen[i]->f_name, i, &over);
}

static void
print_escaped(const char *value)
{
	for (; *value != '\0'; value++) {
		if (nchosen > 1 && (*value == ':' || *value == '\\'))
			(void) putchar('\\');
		(void) putchar(*value);
	}
}

static void
print_row(const ibd_path_info_t *path, int parsable)
{
	char value[VALUE_LEN];
	unsigned int over = 0;
	size_t i;

	for (i = 0; i < nchosen; i++) {
		value[0] = '\0';
		chosen[i]->f_print(value, path);
		if (!parsable) {
			print_cell(value[0] == '\0' ? "--" : value, i, &over);
			continue;
		}
		print_escaped(value);
		(void) putchar(i + 1 == nchosen ? '\n' : ':');
	}
}

/*
 * The address, as IP or link address; whether it is one.
 */
static int
read_link_address(const char *text, uint8_t to[IBD_PATH_ADDRL])
{
	size_t i;

	for (i = 0; i < IBD_PATH_ADDRL; i++) {
		char *end;
		unsigned long byte;

		if (!isxdigit((unsigned char)*text))
			return (0);
		byte = strtoul(text, &end, 16);
		if (end - text > 2 || byte > 0xff)
			return (0);
		to[i] = (uint8_t)byte;
		if (*end != (i + 1 == IBD_PATH_ADDRL ? '\0' : ':'))
			return (0);
		text = end + 1;
	}
	return (1);
}

static int
read_address(const char *text, ibd_path_info_t *path)
{
	(void) memset(path, 0, sizeof (*path));
	path->ibp_version = IBD_PATH_VERSION;
	if (inet_pton(AF_INET, text, path->ibp_address) == 1)
		path->ibp_kind = IBD_PATH_IPV4;
	else if (inet_pton(AF_INET6, text, path->ibp_address) == 1)
		path->ibp_kind = IBD_PATH_IPV6;
	else if (read_link_address(text, path->ibp_address))
		path->ibp_kind = IBD_PATH_LINK_ADDRESS;
	return (path->ibp_kind != 0);
}

static const char *
explain(int error)
{
	switch (error) {
	case EAGAIN:
		return ("not known yet");
	case ENXIO:
		return ("no path, or no answer from the subnet administrator");
	case ENOENT:
		return ("no ARP or neighbour discovery seen for it; "
		    "send it something first");
	case ENETDOWN:
		return ("the link is not up");
	case EPERM:
	case EACCES:
		return ("permission denied");
	case EINVAL:
		return ("an address nobody can have, or a link that is not "
		    "ibd's or ibp's");
	default:
		return (strerror(error));
	}
}

/* Asks until the path is known, or for so long. */
static int
ask(const ibd_path_info_t *question, unsigned int seconds,
    ibd_path_info_t *path)
{
	unsigned long left = seconds * 1000UL / PAUSE_MS;
	int error;

	for (;;) {
		*path = *question;
		if ((error = link_ask(path)) != EAGAIN || left == 0)
			return (error);
		left--;
		link_pause(PAUSE_MS);
	}
}

static int
read_seconds(const char *text, unsigned int *seconds)
{
	char *end;
	unsigned long value;

	if (!isdigit((unsigned char)*text))
		return (0);
	value = strtoul(text, &end, 10);
	if (*end != '\0' || value > LONGEST_WAIT)
		return (0);
	*seconds = (unsigned int)value;
	return (1);
}

static int
show_all(int count, char **addresses, unsigned int seconds, int parsable)
{
	ibd_path_info_t question, path;
	int rows = 0, failures = 0, i, error;

	for (i = 0; i < count; i++) {
		asked_about = addresses[i];
		if (!read_address(addresses[i], &question)) {
			complain("%s: neither an IP address nor a link address "
			    "of 20 bytes", addresses[i]);
			failures++;
			continue;
		}
		if ((error = ask(&question, seconds, &path)) != 0) {
			complain("%s: %s", addresses[i], explain(error));
			failures++;
			continue;
		}
		if (rows++ == 0 && !parsable)
			print_header();
		print_row(&path, parsable);
	}
	return (failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int
main(int argc, char **argv)
{
	const char *names = NULL;
	unsigned int seconds = DEFAULT_WAIT;
	int parsable = 0, option, error;

	while ((option = getopt(argc, argv, ":o:pw:")) != -1) {
		switch (option) {
		case 'o':
			names = optarg;
			break;
		case 'p':
			parsable = 1;
			break;
		case 'w':
			if (!read_seconds(optarg, &seconds)) {
				complain("%s: not a number of seconds up to %d",
				    optarg, LONGEST_WAIT);
				return (usage());
			}
			break;
		case ':':
			complain("option -%c needs an argument", optopt);
			return (usage());
		default:
			complain("unknown option -%c", optopt);
			return (usage());
		}
	}
	if (parsable && names == NULL) {
		complain("-p requires -o");
		return (usage());
	}
	if (argc - optind < 2)
		return (usage());
	if (!choose(names == NULL ? default_fields : names, parsable))
		return (EXIT_FAILURE);
	if ((error = link_open(argv[optind])) != 0) {
		complain("%s: %s", argv[optind], error == ENODEV ?
		    "no such link" : explain(error));
		return (EXIT_FAILURE);
	}
	error = show_all(argc - optind - 1, argv + optind + 1, seconds,
	    parsable);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		complain("standard output: %s", strerror(errno));
		return (EXIT_FAILURE);
	}
	return (error);
}

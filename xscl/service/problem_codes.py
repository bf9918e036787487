"""The codes of problem documents: what they mean, and the HTTP status at which each stands."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

_MEANINGS: Mapping[int, tuple[str, str]] = {
    400: (
        "The request cannot be understood, or not be done.",
        "token_in_address bad_host feeds reserved_name account too_many_addresses"
        " too_many_endpoints",
    ),
    401: ("A token is needed, or it is not known (any more).", "unauthorized"),
    403: (
        "You may not do this.",
        "operator_only stream_public quota_exceeded cross_site wrong_code push_signature",
    ),
    404: (
        "There is no such thing, or it is another user's.",
        "unknown_subscription unknown_feed unknown_stream unknown_endpoint unknown_address"
        " unknown_token unknown_user unknown_file not_found unknown_match",
    ),
    405: ("The address takes other methods: `Allow` names them.", "method_not_allowed"),
    408: ("The body came too slowly.", "body_too_slow"),
    409: (
        "Something that is there stands against it.",
        "name_taken stream_cycle streams_too_deep stream_in_use stream_published"
        " endpoint_not_active endpoint_unconfirmed",
    ),
    410: ("Nothing is expected here any more; do not ask again.", "unknown_callback"),
    413: ("The body, or a list in it, is too large.", "body_too_large too_many_rows"),
    414: ("The address is too long.", "address_too_long"),
    421: ("The service is not called by that name.", "unknown_host"),
    422: (
        "What was sent is wrong; `line` and `column` say where, `row` in which row of a list.",
        "invalid_request query query_not_supported query_too_complex too_long"
        " query_or_subscription subscription_name stream_name wrong_tag label id wrong_row"
        " mixed_rows empty_list encoding not_a_list not_a_feed json_syntax xml_syntax xml_chars"
        " xml_encoding xml_entities xml_depth xml_size xml_elements no_stream name type timestamp"
        " time future poison unknown_document ambiguous_document text_dropped duration every"
        " last_event_id position_ahead no_mail_server url_private url_port url_scheme url_invalid"
        " fetch_unreachable sql sql_not_select sql_not_allowed sql_unknown_relation"
        " sql_too_complex sql_too_large sql_timeout",
    ),
    429: (
        "There is no room now; `Retry-After` says when.",
        "busy sql_busy too_many_connections too_many_guesses too_many_requests",
    ),
    500: ("Something is wrong in the service; its log says what.", "internal"),
    503: (
        "Nothing can be taken now; `Retry-After` says when.",
        "disk_full stopping too_many_connections mail_server sql_unavailable spool backup store"
        " store_closed store_damaged store_in_use store_memory store_read_too_long"
        " store_unavailable store_version store_went_back evaluation",
    ),
}

CODES = {status: (meaning, codes.split()) for status, (meaning, codes) in _MEANINGS.items()}
"""Meaning and problem codes by HTTP status."""

STATUS: Mapping[str, HTTPStatus] = {
    code: HTTPStatus(status) for status, (_, codes) in reversed(CODES.items()) for code in codes
}
"""Status by code, the first one of a code that stands at several."""

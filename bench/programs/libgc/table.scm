;;; A hash table that lives, and garbage beside it.
;;;
;;;   guile table.scm ENTRIES ROUNDS
;;;
;;; Fills a table with ENTRIES entries; each round then makes a list that is dropped, and looks up and
;;; replaces entries. Prints one JSON object with a checksum, which does not depend on the collector.

(define argv (cdr (command-line)))
(define entries (string->number (list-ref argv 0)))
(define rounds (string->number (list-ref argv 1)))

;; A linear congruential sequence: the same work in every run.
(define state 12345)
(define (next!)
  (set! state (modulo (+ (* state 1103515245) 12345) 2147483648))
  (modulo (quotient state 64) entries))

(define table (make-hash-table))
(define (entry key) (vector key (number->string key) (* key 2) '()))

(let fill ((key 0))
  (when (< key entries)
    (hashv-set! table key (entry key))
    (fill (+ key 1))))

(define (churn round)
  (let* ((list (iota 1000 round))
         (old (next!)))
    (hashv-set! table old (entry old))
    (+ (car list) (vector-ref (hashv-ref table (next!)) 0))))

(let loop ((round 0) (checksum 0))
  (if (< round rounds)
      (loop (+ round 1) (modulo (+ checksum (churn round)) 1000000007))
      (format #t "{\"checksum\":~a}~%" checksum)))

;;; A Guile program with live data and steady garbage.
;;;
;;;   guile churn.scm LIVE-MB SECONDS|xITERATIONS [PAUSE-AFTER PAUSE]
;;;
;;; Keeps about LIVE-MB megabytes of small vectors alive and replaces some of them all the time, which makes
;;; garbage. Prints one JSON object per line: progress about once a second, "done" at the end. "work" counts
;;; replacements; "checksum" depends on the number of replacements only. With x before the number it makes
;;; that many rounds instead of running for a time. Sizes are bytes, times seconds.

(use-modules (ice-9 format) (srfi srfi-1))

(define (now) (/ (exact->inexact (get-internal-real-time)) internal-time-units-per-second))
(define argv (cdr (command-line)))
(define (argument n default) (if (> (length argv) n) (list-ref argv n) default))
(define live-mb (string->number (argument 0 "50")))
(define length-text (argument 1 "10"))
(define by-rounds? (char=? (string-ref length-text 0) #\x))
(define amount (string->number (if by-rounds? (substring length-text 1) length-text)))
(define pause-after (string->number (argument 2 "-1")))
(define pause (string->number (argument 3 "0")))

(define item-words 14)
(define item-bytes (* 8 (+ item-words 2)))
(define items (max 1 (quotient (* live-mb 1000000) item-bytes)))
(define table (make-vector items #f))
(define per-round 20000)

;; A linear congruential sequence: the same work in every run.
(define state 12345)
(define (next!)
  (set! state (modulo (+ (* state 1103515245) 12345) 2147483648))
  state)

(define (item seed) (make-vector item-words seed))

(define (resident)
  (call-with-input-file "/proc/self/statm"
    (lambda (port) (read port) (* 4096 (read port)))))

(define start (now))
(define (line event round work checksum)
  (let ((stats (gc-stats)))
    (format #t
            (string-append "{\"event\":\"~a\",\"round\":~a,\"time\":~,3f,\"work\":~a,\"checksum\":~a,"
                           "\"collections\":~a,\"gc_time\":~,3f,\"heap\":~a,\"rss\":~a}~%")
            event round (- (now) start) work checksum
            (assq-ref stats 'gc-times)
            (/ (exact->inexact (assq-ref stats 'gc-time-taken)) internal-time-units-per-second)
            (assq-ref stats 'heap-size) (resident))
    (force-output)))

(define (one-round! checksum)
  (let loop ((i 0) (checksum checksum))
    (if (= i per-round)
        checksum
        (let* ((where (modulo (next!) items))
               (old (vector-ref table where)))
          (vector-set! table where (item (modulo i 1000)))
          (loop (+ i 1) (modulo (+ checksum (vector-ref old 0)) 1000000007))))))

(let fill ((i 0))
  (when (< i items)
    (vector-set! table i (item (modulo i 1000)))
    (fill (+ i 1))))

(line "start" 0 0 0)
(let loop ((round 0) (checksum 0) (told (now)))
  (when (and (= round pause-after) (> pause 0))
    (sleep pause))
  (cond
   ((if by-rounds? (>= round amount) (>= (- (now) start) amount))
    (line "done" round (* round per-round) checksum))
   (else
    (let ((checksum (one-round! checksum))
          (tell? (>= (- (now) told) 1)))
      (when tell? (line "progress" (+ round 1) (* (+ round 1) per-round) checksum))
      (loop (+ round 1) checksum (if tell? (now) told))))))
